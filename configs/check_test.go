package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checked are the problems that Check finds in a config file of that text, as brief writes them.
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
	return strings.Join(brief(err), "\n")
}

const narval = "[host.narval]\nsite = \"narval\"\n"

func TestCheckProblems(t *testing.T) {
	check := func(name, config string, want ...string) { // or more than that
		t.Run(name, func(t *testing.T) {
			if got, want := checked(t, config), strings.Join(want, "\n"); !strings.HasPrefix(got, want) {
				t.Errorf("got\n%s\n\nwant\n%s", got, want)
			}
		})
	}
	const session = "[session.a]\nhost = \"beluga\"\nsubmit = \"builtin:jupyter\"\n"
	builtin := narval + "[session.a]\nhost = \"narval\"\nsubmit = \"builtin:jupyter\"\n"
	check("a site that there is not", "[host.a]\nsite = \"narwal\"\n",
		`2:8 ["narwal"] no site "narwal"`, "→ did you mean \"narval\"? `tunctl sites` lists them all")
	check("an answer that does not fit, and one that there is not", builtin+`with = { account = "def-x", gpus = "many", hour = 2 }`,
		`6:29 [gpus = "many"] "gpus" must be a whole number, not "many"`, `→ set it in the session: with = { gpus = 1 }`,
		`6:44 [hour = 2] site "narval" has no question "hour"`, `→ did you mean "hours"?`)
	check("answers in a section of their own", builtin+"[session.a.with]\naccount = \"def-x\"\nhours = \"long\"\n",
		`8:1 [hours = "long"] "hours" must be a number of hours, at least 1, at most 168, not "long"`,
		`→ set it in the session: with = { hours = 1 }`)
	check("a question without an answer", builtin+"with = { hours = 2 }\n",
		`6:1 [with] "account" is required: Which account is charged, such as def-yoursupervisor?`,
		`→ set it in the session: with = { account = "…" }`)
	check("no answers at all", builtin,
		`3:2 [session.a] "account" is required: Which account is charged, such as def-yoursupervisor?`,
		`→ set it in the session: with = { account = "…" }`)
	check("a queue's limit", "[host.s]\nsite = \"sdumont\"\n[session.a]\nhost = \"s\"\nsubmit = \"builtin:jupyter\"\n"+
		`with = { folder = "/scratch/x/a", partition = "nvidia_dev", hours = 2 }`,
		`6:61 [hours = 2] hours = 2 is more than queue nvidia_dev allows (20 min)`)
	check("a name that no job can have", builtin+"with = { account = \"def-x\" }\njob = \"my notebook\"\n",
		`7:7 ["my notebook"] "my notebook" is not a valid job name`)
	check("a mistyped host, whose answers are checked all the same",
		narval+"[session.a]\nhost = \"navral\"\nsubmit = \"builtin:jupyter\"\nwith = { account = \"x\", gpu = 1 }\n",
		`4:8 ["navral"] host "navral" is neither in this file nor in your ssh config`,
		`→ did you mean "narval"? Otherwise add a section [host.navral]`,
		`6:25 [gpu = 1] site "narval" has no question "gpu"`, `→ did you mean "gpus"?`)
	check("an answer that no scheduler's job has, where the site is not known", session+"with = { hors = 3, hours = 1 }\n",
		`4:10 [hors = 3] "hors" is nothing that can be chosen for this session`, `→ did you mean "hours"? available: `)
	check("answers that fit no scheduler", session+"with = { hours = \"two\", gpu = 1 }\n",
		`4:10 [hours = "two"] "hours" must be a number of hours, such as 2 or 0.5, not "two"`,
		`4:25 [gpu = 1] "gpu" is nothing that can be chosen for this session`, `→ did you mean "gpus"? available: `)
	check("a wrong answer for PBS", session+"with = { queue = \"long\", hours = \"two\" }\n",
		`4:26 [hours = "two"] "hours" must be a number of hours, such as 2 or 0.5, not "two"`)
	check("a script that is not there", "[session.a]\nhost = \"beluga\"\nsubmit = \"local:./nothere.sh\"\n",
		`3:10 ["local:./nothere.sh"] cannot read the script: stat `)
	check("a mistyped alias", "[session.a]\nhost = \"beluha\"\njob = \"x\"\n",
		`2:8 ["beluha"] host "beluha" is neither in this file nor in your ssh config`,
		`→ did you mean "beluga"? Otherwise add a section [host.beluha]`)
	check("beside what Load finds", "[host.a]\nsite = \"narwal\"\nlocal = 1\n",
		`2:8 ["narwal"] no site "narwal"`, "→ did you mean \"narval\"? `tunctl sites` lists them all",
		`3:1 [local] unknown key "local" in [host.a]`)
}

// TestCheckKnownHosts: a host that is written somewhere or in full is no slip.
func TestCheckKnownHosts(t *testing.T) {
	for _, host := range []string{"narval", "beluga", "belugb", "cluster", "narval.example.org", "ann@narva"} {
		if got := checked(t, narval+"[session.a]\nhost = \""+host+"\"\njob = \"x\"\n"); got != "" {
			t.Errorf("%s: %s", host, got)
		}
	}
}

// TestCheckAnswersOfAnyScheduler: answers for one of the schedulers are valid.
func TestCheckAnswersOfAnyScheduler(t *testing.T) {
	for _, with := range []string{`partition = "a", hours = 2`, `queue = "a"`, `gpu = "0,1"`, `venv = "~/x"`} {
		if got := checked(t, "[session.a]\nhost = \"beluga\"\nsubmit = \"builtin:jupyter\"\nwith = { "+with+" }\n"); got != "" {
			t.Errorf("%s: %s", with, got)
		}
	}
}

// TestCheckExample: the example is valid by its sites.
func TestCheckExample(t *testing.T) {
	if got := checked(t, example); got != "" {
		t.Error(got)
	}
}
