package tray

import (
	"strings"

	"tunctl/internal/action"
	"tunctl/internal/api"
)

// The verbs of entries and buttons that do something.
const (
	verbOpen       = "open" // without a name: the one page that is ready
	verbCopy       = "copy"
	verbLog        = "log"
	verbUp         = "up"
	verbReconnect  = "reconnect" // up that submits nothing
	verbUpWith     = "up-with"   // with earlier choices
	verbDown       = "down"
	verbCancel     = "cancel"
	verbAnswer     = "answer" // raise the dialog that waits
	verbExtend     = "extend"
	verbKeep       = "keep"    // leave an idle job as it is, also if it would end by itself, from a notification
	verbAskEnd     = "ask-end" // ask whether an idle job is to be ended, from a notification
	verbEnd        = "end"     // end that job, from that question
	verbTrouble    = "trouble" // show what went wrong with a session
	verbDetails    = "details" // show what went wrong with an entry, from a notification
	verbLogin      = "login"
	verbAsk        = "ask" // log in in a terminal, from a notification
	verbLogout     = "logout"
	verbStartAgent = "start-agent"
	verbSetup      = "setup"
	verbDashboard  = "dashboard"
	verbAutostart  = "autostart"
	verbSettings   = "settings"
	verbHelp       = "help"
	verbQuit       = "quit"
)

// verbTexts are the texts of a verb.
type verbTexts struct {
	attempt string // completes "Could not …"; a name may follow
	button  string // its label in a notification
	command string // of tunctl, which does the same; a name may follow
}

var verbs = map[string]verbTexts{
	verbOpen:       {"open", "Open", "open"},
	verbCopy:       {"copy the address of", "", "open --print"},
	verbLog:        {"show the log of", api.MenuLog, "logs"},
	verbUp:         {"start", "Start again", ""},
	verbUpWith:     {"start", "", ""},
	verbReconnect:  {"reconnect to", "", ""},
	verbDown:       {"disconnect", "", ""},
	verbCancel:     {"end the job of", "", ""},
	verbKeep:       {"keep", "Keep", "extend --idle"},
	verbAskEnd:     {"", "End the job…", ""},
	verbEnd:        {"end the job of", "End the job", ""},
	verbExtend:     {"extend", "Extend by 1 h", "extend"},
	verbLogin:      {"log in to", api.MenuHostLogin, ""},
	verbAsk:        {"log in to", "Open a terminal…", ""},
	verbLogout:     {"log out of", "", ""},
	verbStartAgent: {"start tunctl", "", "agent start"},
	verbSetup:      {"open a terminal", "Set up…", ""},
	verbAutostart:  {"change the startup", "", ""},
	verbDashboard:  {"open the dashboard", "", "dashboard --print"},
	verbSettings:   {"open the config", "Edit config…", "config edit"},
	verbHelp:       {"show the help", "", "help"},
	verbTrouble:    {"show the details of", api.MenuTrouble, ""},
	verbDetails:    {"show the details", "Show details", ""},
}

// equivalentCommand is the command that does the same as an entry; "" if none does.
func equivalentCommand(id choice) string {
	if id.verb == verbOpen && id.part != "" {
		return id.page().Command("tunctl")
	}
	if verbs[id.verb].command == "" {
		return ""
	}
	return strings.TrimSpace("tunctl " + verbs[id.verb].command + " " + id.name)
}

// page is the page that an entry opens.
func (c choice) page() action.Page { return action.Page{Session: c.name, Endpoint: c.part} }
