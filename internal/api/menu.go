package api

// Entries of the tray's menu that other texts mention.
const (
	MenuStart     = "Start"
	MenuReconnect = "Reconnect" // if the job runs already: it submits nothing
	MenuLog       = "Show log"
	MenuHostLogin = "Log in…" // of a host
	MenuTrouble   = "See what went wrong…"
)

// MenuLogin is the entry that logs in to a host.
func MenuLogin(host string) string { return "Log in to " + host + "…" }
