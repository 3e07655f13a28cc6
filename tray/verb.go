package tray

import (
	"strings"

	"tunctl/internal/action"
	"tunctl/internal/api"
)

// verb is what an entry of the menu, or a button of a notification, does or shows.
type verb struct {
	name    string
	attempt string // completes "Could not …"; a name may follow
	button  string // its label in a notification
	command string // of tunctl, which does the same; a name may follow
}

// The verbs of entries and buttons that do something.
var (
	verbOpen       = verb{"open", "open", "Open", "open"} // without a name: the one page that is ready
	verbCopy       = verb{"copy", "copy the address of", "", "open --print"}
	verbLog        = verb{"log", "show the log of", api.MenuLog, "logs"}
	verbUp         = verb{"up", "start", "Start again", ""}
	verbReconnect  = verb{"reconnect", "reconnect to", "", ""} // up that submits nothing
	verbUpWith     = verb{"up-with", "start", "", ""}          // with earlier choices
	verbDown       = verb{"down", "disconnect", "", ""}
	verbCancel     = verb{"cancel", "end the job of", "", ""}
	verbAnswer     = verb{name: "answer"} // raise the dialog that waits
	verbExtend     = verb{"extend", "extend", "Extend by 1 h", "extend"}
	verbKeep       = verb{"keep", "keep", "Keep", "extend --idle"}               // leave an idle job as it is, also if it would end by itself, from a notification
	verbAskEnd     = verb{"ask-end", "", "End the job…", ""}                     // ask whether an idle job is to be ended, from a notification
	verbEnd        = verb{"end", "end the job of", "End the job", ""}            // end that job, from that question
	verbTrouble    = verb{"trouble", "show the details of", api.MenuTrouble, ""} // show what went wrong with a session
	verbDetails    = verb{"details", "show the details", "Show details", ""}     // show what went wrong with an entry, from a notification
	verbLogin      = verb{"login", "log in to", api.MenuHostLogin, ""}
	verbAsk        = verb{"ask", "log in to", "Open a terminal…", ""} // log in in a terminal, from a notification
	verbLogout     = verb{"logout", "log out of", "", ""}
	verbStartAgent = verb{"start-agent", "start tunctl", "", "agent start"}
	verbSetup      = verb{"setup", "open a terminal", "Set up…", ""}
	verbDashboard  = verb{"dashboard", "open the dashboard", "", "dashboard --print"}
	verbAutostart  = verb{"autostart", "change the startup", "", ""}
	verbSettings   = verb{"settings", "open the config", "Edit config…", "config edit"}
	verbHelp       = verb{"help", "show the help", "", "help"}
	verbQuit       = verb{name: "quit"}
)

// equivalentCommand is the command that does the same as an entry; "" if none does.
func equivalentCommand(id choice) string {
	if id.verb == verbOpen && id.part != "" {
		return id.page().Command("tunctl")
	}
	if id.verb.command == "" {
		return ""
	}
	return strings.TrimSpace("tunctl " + id.verb.command + " " + id.name)
}

// page is the page that an entry opens.
func (c choice) page() action.Page { return action.Page{Session: c.name, Endpoint: c.part} }
