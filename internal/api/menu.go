package api

// Entries of the tray's menu that other texts mention.
const (
	MenuStart     = "Start"
	MenuReconnect = "Reconnect" // start, if the job runs already
	MenuLog       = "Show log"
	MenuTrouble   = "See what went wrong…"
)

// MenuLogin is the entry that logs in to a host.
func MenuLogin(host string) string { return "Log in to " + host + "…" }
