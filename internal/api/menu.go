package api

// Entries of the tray's menu that other texts name, so that a person finds there what
// they were told to look for.
const (
	MenuStart     = "Start"
	MenuReconnect = "Reconnect" // start, where the job runs already
	MenuLog       = "Show log"
	MenuTrouble   = "See what went wrong…"
)

// MenuLogin is the entry that logs in to a host.
func MenuLogin(host string) string { return "Log in to " + host + "…" }
