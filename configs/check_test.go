package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checked are the problems that Check finds in a config file of that text.
func checked(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Check(path, CheckOptions{
		Sites: builtinSites(t), Aliases: []string{"beluga"}, Resolves: func(host string) bool { return host == "belugb" },
	})
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), path, "config.toml")
}

const narval = "[host.narval]\nsite = \"narval\"\n"

func TestWhatOnlySitesAndTheSSHConfigCanTellIsToldWithItsPlace(t *testing.T) {
	builtin := narval + "[session.a]\nhost = \"narval\"\nsubmit = \"builtin:jupyter\"\n"
	for _, p := range []problem{
		{"a site that there is not", "[host.a]\nsite = \"narwal\"\n", `
config.toml:2:8: no site "narwal"
  2 | site = "narwal"
    |        ^^^^^^^^
  did you mean "narval"? ` + "`tunctl sites` lists them all" + `
`},
		{"an answer that does not fit, and one that there is not", builtin + `with = { account = "def-x", gpus = "many", hour = 2 }`, `
config.toml:6:29: "gpus" must be a whole number, not "many"
  6 | with = { account = "def-x", gpus = "many", hour = 2 }
    |                             ^^^^^^^^^^^^^
  set it in the session: with = { gpus = 1 }
config.toml:6:44: site "narval" has no question "hour"
  6 | with = { account = "def-x", gpus = "many", hour = 2 }
    |                                            ^^^^^^^^
  did you mean "hours"?
`},
		{"answers in a section of their own", builtin + "[session.a.with]\naccount = \"def-x\"\nhours = \"long\"\n", `
config.toml:8:1: "hours" must be a number of hours, at least 1, at most 168, not "long"
  8 | hours = "long"
    | ^^^^^^^^^^^^^^
  set it in the session: with = { hours = 1 }
`},
		{"a question without an answer", builtin + "with = { hours = 2 }\n", `
config.toml:6:1: "account" is required: Which account is charged, such as def-yoursupervisor?
  6 | with = { hours = 2 }
    | ^^^^
  set it in the session: with = { account = "…" }
`},
		{"no answers at all", builtin, `
config.toml:3:2: "account" is required: Which account is charged, such as def-yoursupervisor?
  3 | [session.a]
    |  ^^^^^^^^^
  set it in the session: with = { account = "…" }
`},
		{"a queue's limit", "[host.s]\nsite = \"sdumont\"\n[session.a]\nhost = \"s\"\nsubmit = \"builtin:jupyter\"\n" +
			`with = { folder = "/scratch/x/a", partition = "nvidia_dev", hours = 2 }`, `
config.toml:6:61: hours = 2 is more than queue nvidia_dev allows (20 min)
`},
		{"a name that no job can have", builtin + "with = { account = \"def-x\" }\njob = \"my notebook\"\n", `
config.toml:7:7: "my notebook" is not a valid job name
`},
		{"a mistyped host, whose answers are checked all the same", narval + "[session.a]\nhost = \"navral\"\nsubmit = \"builtin:jupyter\"\nwith = { account = \"x\", gpu = 1 }\n", `
config.toml:4:8: host "navral" is neither in this file nor in your ssh config
  4 | host = "navral"
    |        ^^^^^^^^
  did you mean "narval"? Otherwise add a section [host.navral]
config.toml:6:25: site "narval" has no question "gpu"
  6 | with = { account = "x", gpu = 1 }
    |                         ^^^^^^^
  did you mean "gpus"?
`},
		{"an answer that no scheduler's job has, where the site is not known", "[session.a]\nhost = \"beluga\"\nsubmit = \"builtin:jupyter\"\nwith = { hors = 3, hours = 1 }\n", `
config.toml:4:10: "hors" is nothing that can be chosen for this session
  4 | with = { hors = 3, hours = 1 }
    |          ^^^^^^^^
  did you mean "hours"? available: `},
		{"answers that fit no scheduler", "[session.a]\nhost = \"beluga\"\nsubmit = \"builtin:jupyter\"\nwith = { hours = \"two\", gpu = 1 }\n", `
config.toml:4:10: "hours" must be a number of hours, such as 2 or 0.5, not "two"
  4 | with = { hours = "two", gpu = 1 }
    |          ^^^^^^^^^^^^^
config.toml:4:25: "gpu" is nothing that can be chosen for this session
  4 | with = { hours = "two", gpu = 1 }
    |                         ^^^^^^^
  did you mean "gpus"? available: `},
		{"a wrong answer for PBS", "[session.a]\nhost = \"beluga\"\nsubmit = \"builtin:jupyter\"\nwith = { queue = \"long\", hours = \"two\" }\n", `
config.toml:4:26: "hours" must be a number of hours, such as 2 or 0.5, not "two"
`},
		{"a script that is not there", "[session.a]\nhost = \"beluga\"\nsubmit = \"local:./nothere.sh\"\n", `
config.toml:3:10: cannot read the script: stat `},
		{"a mistyped alias", "[session.a]\nhost = \"beluha\"\njob = \"x\"\n", `
config.toml:2:8: host "beluha" is neither in this file nor in your ssh config
  2 | host = "beluha"
    |        ^^^^^^^^
  did you mean "beluga"? Otherwise add a section [host.beluha]
`},
		{"beside what Load finds", "[host.a]\nsite = \"narwal\"\nlocal = 1\n", `
config.toml:2:8: no site "narwal"
  2 | site = "narwal"
    |        ^^^^^^^^
  did you mean "narval"? ` + "`tunctl sites` lists them all" + `
config.toml:3:1: unknown key "local" in [host.a]
`},
	} {
		t.Run(p.name, func(t *testing.T) {
			if got, want := checked(t, p.config), strings.TrimSpace(p.want); !strings.HasPrefix(got, want) {
				t.Errorf("got\n%s\n\nwant\n%s", got, want)
			}
		})
	}
}

func TestAHostThatIsWrittenSomewhereOrInFullIsNoSlip(t *testing.T) {
	for _, host := range []string{"narval", "beluga", "belugb", "cluster", "narval.example.org", "ann@narva"} {
		if got := checked(t, narval+"[session.a]\nhost = \""+host+"\"\njob = \"x\"\n"); got != "" {
			t.Errorf("%s: %s", host, got)
		}
	}
}

func TestAnswersForOneOfTheSchedulersAreValid(t *testing.T) {
	for _, with := range []string{`partition = "a", hours = 2`, `queue = "a"`, `gpu = "0,1"`, `venv = "~/x"`} {
		if got := checked(t, "[session.a]\nhost = \"beluga\"\nsubmit = \"builtin:jupyter\"\nwith = { "+with+" }\n"); got != "" {
			t.Errorf("%s: %s", with, got)
		}
	}
}

func TestTheExampleIsValidByItsSites(t *testing.T) {
	if got := checked(t, example); got != "" {
		t.Error(got)
	}
}
