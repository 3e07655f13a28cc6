//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/ptytest"
	"tunctl/internal/lab"
)

// startTalk runs the program in a terminal, as a person would.
func startTalk(t *testing.T, env []string, args ...string) *ptytest.Program {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = env
	return ptytest.Start(t, cmd)
}

// startPractice starts a practice cluster whose pages the program serves.
func startPractice(t *testing.T, o lab.Options) *lab.Cluster {
	t.Helper()
	o.Dir, o.PageCommand = t.TempDir(), []string{program, practicePage}
	c, err := lab.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// personAt makes a home with a site of its own for a practice cluster.
func personAt(t *testing.T, c *lab.Cluster) (env []string, config string) {
	t.Helper()
	dir := t.TempDir()
	site := "like = \"slurm\"\ntitle = \"our practice cluster\"\n[entrance.main]\nhost = \"practice\"\n[entrance.side]\nhost = \"side.example.org\"\n"
	writeFiles(t, dir, map[string]string{"sites/ours.toml": site})
	t.Cleanup(func() {
		if err := endAgent(dir); err != nil {
			t.Error(err)
		}
	})
	return []string{
		"TUNCTL_HOME=" + dir, "HOME=" + dir, "TERM=xterm", "PATH=" + os.Getenv("PATH"), "TUNCTL_PRACTICE=1", "TUNCTL_SSH_CONFIG=" + c.SSHConfig(),
	}, filepath.Join(dir, "config.toml")
}

func TestAPersonAnswersTheInterviewAtATerminal(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	env, config := personAt(t, c)

	k := startTalk(t, env, "init")
	k.Expect("Hosts of your ssh config:")
	k.Expect("practice")
	k.Expect("Which cluster?")
	k.Answer("?")
	k.Expect("aspire2a")
	k.Expect("Hosts of your ssh config:")
	k.Expect("Which cluster?")
	k.Answer("narwal")
	k.Expect("no site \"narwal\": did you mean \"narval\"?")
	k.Expect("Which cluster?")
	k.Answer("999")
	k.Expect("No line above has the number 999")
	k.Expect("Which cluster?")
	k.Answer("no cluster")
	k.Expect("\"no cluster\" is not a host")
	k.Expect("Which cluster?")
	k.Answer("practice cluster")
	k.Expect("1) ours         our practice cluster")
	k.Expect("Which cluster?")
	k.Expect("[ours]")
	k.Answer("1")
	k.Expect("Which login node? [main]")
	k.Answer("")
	k.Expect("connected to ours")
	k.Expect("Which account is charged?")
	k.Answer("def ann")
	k.Expect("must be one word without spaces or quotes")
	k.Answer("cpus=4") // a setting is changed at any question
	k.Expect("cpus = 4")
	k.Answer("def-ann")
	k.Expect("How many hours should the job last? [2]")
	k.Answer("0.5")
	k.Expect("How many GPUs? [0]")
	k.Answer("")
	k.Expect("Other settings:")
	k.Expect("memory     How much memory? [8G]")
	k.Expect("container  An Apptainer or Singularity image to run in")
	k.Answer("cores=4")
	k.Expect("\"cores=4\" is not a setting of the job; the settings are: account, ")
	k.Answer("cores")
	k.Expect("\"cores\" is not NAME=VALUE with one of the names above")
	k.Answer("memory=16")
	k.Expect("with its unit, such as 8G")
	k.Answer("memory=16G")
	k.Expect("press Enter to continue")
	k.Answer("")
	k.Expect("added to")
	k.Expect("Next: tunctl up jupyter")
	k.WantEnd(0)
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[host.ours]\nssh  = \"practice\"\nsite = \"ours\"\n", `with   = { account = "def-ann", hours = 0.5, cpus = 4, memory = "16G", gpus = 0 }`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestInitWritesOnlyWhatWorks(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	env, config := personAt(t, c)
	k := startTalk(t, env, "init", "--app", "shell")
	k.Expect("Which cluster?")
	k.Answer("elsewhere")
	k.Expect("Your user name on the cluster?")
	k.Answer("ann")
	k.Expect("(elsewhere) is not part of it")
	k.Expect("or type another USER@HOST")
	if _, err := os.Stat(config); err == nil {
		t.Error("there is a config")
	}
	c.FailSubmit("sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)", 1)
	k.Answer("practice")
	k.Expect("connected to practice")
	k.Expect("press Enter to continue")
	k.Answer("")
	k.Expect("the scheduler refuses the job: ")
	k.Expect("press Enter to continue")
	c.FailSubmit("", 0)
	k.Answer("hours=1")
	k.Expect("press Enter to continue")
	k.Answer("")
	k.Expect("the scheduler would accept the job")
	k.Expect("Next: tunctl up shell")
	k.WantEnd(0)
	before, err := os.ReadFile(config)
	if err != nil || strings.Contains(string(before), "elsewhere") || !strings.Contains(string(before), "hours = 1") || !strings.HasPrefix(string(before), "[host.practice]\n\n") {
		t.Errorf("%v\n%s", err, before)
	}

	// The host is known now, and stays as it is where another cannot be logged in to.
	k = startTalk(t, env, "init", "practice", "--no-look", "--app", "shell")
	k.Expect("Which scheduler does practice use: slurm, pbs, gridengine or none? [slurm]")
	k.Answer("")
	k.Expect("[host.practice] is already in the config: practice")
	k.Answer("ann@elsewhere")
	k.Expect("1) change shell")
	k.Answer("2")
	k.Expect("Which account")
	k.Answer("")
	k.Expect("How many hours")
	k.Answer("")
	k.Expect("How many GPUs")
	k.Answer("")
	k.Expect("press Enter to continue")
	k.Answer("")
	k.Expect("or type another USER@HOST")
	k.Type("\x03")
	k.Expect("stopped")
	k.WantEnd(exitInterrupted)
	if after, err := os.ReadFile(config); err != nil || string(after) != string(before) {
		t.Errorf("%v\n%s", err, after)
	}
}

func TestTheInterviewSuggestsTheSiteInTheSSHConfigAndSearches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "ssh_config")
	if err := os.WriteFile(config, []byte("Host mycluster\nHostName narval.alliancecan.ca\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"TUNCTL_HOME=" + dir, "HOME=" + dir, "TERM=xterm", "PATH=" + os.Getenv("PATH"), "TUNCTL_SSH_CONFIG=" + config}
	k := startTalk(t, env, "init", "--no-login")
	k.Expect("Probably \x1b[1mnarval\x1b[0m: your ssh config has mycluster.")
	k.Expect("[narval]: ")
	k.Answer("singapore")
	k.Expect(") aspire2a ")
	k.Expect("(To use a host called singapore: USER@singapore)")
	k.Expect("lists all")
	k.Answer("national compute infrastructure") // of no title
	k.Expect("is not a host")
	k.Answer("ASPIRE") // of one site
	k.Expect("[aspire2a]: ")
	k.Answer("narval")
	k.Expect("narval.alliancecan.ca is in your ssh config as mycluster")
	k.Type("\x03")
	k.Expect("stopped")
	k.WantEnd(exitInterrupted)
}

func TestTheInterviewBeginsShortAndTakesTheSuggestion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "ssh_config")
	text := "Host mycluster\nHostName narval.alliancecan.ca\n"
	for n := range 30 {
		text += fmt.Sprintf("Host z%d\nHostName z%d.example.org\n", n, n)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"TUNCTL_HOME=" + dir, "HOME=" + dir, "TERM=xterm", "PATH=" + os.Getenv("PATH"), "TUNCTL_SSH_CONFIG=" + config}
	k := startTalk(t, env, "init", "--no-login")
	k.Expect("and 21 more")
	k.Expect("[narval]: ")
	k.Answer("")
	k.Expect("narval.alliancecan.ca is in your ssh config as mycluster")
	k.Type("\x03")
	k.Expect("stopped")
	_, screen := k.End()
	if before, _, _ := strings.Cut(screen, "[narval]: "); strings.Count(before, "\n") > 16 {
		t.Errorf("too much before the first question:\n%s", before)
	}
}

func TestCtrlCInTheInterviewWritesNothing(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	env, config := personAt(t, c)
	for question, args := range map[string][]string{
		"Which login node?":       {"init", "ours"},
		"press Enter to continue": {"init", "practice", "--app", "shell"}, // after the login
	} {
		k := startTalk(t, env, args...)
		k.Expect(question)
		k.Type("\x03")
		k.Expect("stopped")
		k.WantEnd(exitInterrupted)
		if _, err := os.Stat(config); err == nil {
			t.Errorf("there is a config after %q", question)
		}
	}
}

func TestAPersonChoosesAmongSeveralJobs(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{QueueFor: -1})
	env, config := personAt(t, c)
	writeFiles(t, c.Home(), map[string]string{"jupyter.sh": lab.JobScript(c.Dialect())})
	text := "[session.a]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\n[session.b]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		cmd := exec.CommandContext(t.Context(), program, "up", name, "--no-open")
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	k := startTalk(t, env, "attach", "practice", "--no-open")
	k.Expect("Connect to which job? [1-2]")
	k.Type("\x03")
	k.Expect("nothing was done")
	k.WantEnd(exitInterrupted)

	k = startTalk(t, env, "attach", "practice", "--no-open")
	k.Expect("1) 1002")
	k.Expect("2) 1001")
	k.Expect("Connect to which job? [1-2]")
	k.Answer("7")
	k.Expect("type a number from 1 to 2")
	k.Expect("Connect to which job? [1-2]")
	k.Answer("2")
	k.Expect("practice-1001\x1b[0m is ready")
	k.WantEnd(0)

	// The same choice for a session whose name several jobs have.
	text += "[session.c]\nhost = \"practice\"\njob = \"jupyterlab\"\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "agent", "restart")
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	k = startTalk(t, env, "up", "c", "--no-open")
	k.Expect("Several jobs of this name are running on the host:")
	k.Expect("1) 1002")
	k.Expect("Connect to which job? [1-2]")
	k.Answer("1001")
	k.Expect("c\x1b[0m is ready")
	k.WantEnd(0)
	cmd = exec.CommandContext(t.Context(), program, "status", "c", "--json")
	cmd.Env = env
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), `"id": "1001"`) {
		t.Errorf("%v: another job than the chosen one:\n%s", err, out)
	}
}

// installJupyter makes a virtual environment with a JupyterLab that serves the practice page.
func installJupyter(t *testing.T, folder, version string) {
	t.Helper()
	writeFiles(t, folder, map[string]string{
		"pyvenv.cfg":   "",
		"bin/activate": "PATH=" + filepath.Join(folder, "bin") + ":$PATH\n",
		"bin/jupyter": "#!/bin/sh\ntest \"$1\" = lab || exit 1\nshift\nif test \"$1\" = --version; then echo " + version + "; exit; fi\n" +
			"for word; do case $word in --port=*) port=${word#--port=} ;; esac; done\nexec practice-page --port \"$port\"\n",
		"lib/python3.11/site-packages/jupyterlab-" + version + ".dist-info/METADATA": "",
	})
}

func TestInitLeadsFromAnUnknownPBSToAPageInFourAnswers(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{Dialect: lab.PBS})
	env, config := personAt(t, c)
	installJupyter(t, filepath.Join(c.Home(), "envs", "old"), "3.6.8")
	installJupyter(t, filepath.Join(c.Home(), "envs", "lab"), "4.2.5")

	answers := 0
	answer := func(k *ptytest.Program, question, text string) {
		k.Expect(question)
		k.Answer(text)
		answers++
	}
	k := startTalk(t, env, "init", "practice")
	k.Expect("connected to practice")
	k.Expect("What should `tunctl up jupyter` start?")
	k.Expect("1) ~/envs/lab  ")
	k.Expect("JupyterLab 4.2.5, a virtual environment (your home folder)")
	k.Expect("2) ~/envs/old")
	answer(k, "[1]: ", "99")
	k.Expect("No line above has the number 99.")
	k.Expect("[1]: ")
	k.Answer("?")
	k.Expect("Type the number of a line")
	answer(k, "[1]: ", "")
	k.Expect("queue: normal (qstat -Q)")
	k.Expect("Settings: hours=2 cpus=2 memory=8gb gpus=0 venv=~/envs/lab.")
	answer(k, "press Enter to continue: ", "hours=1")
	k.Expect("hours = 1")
	answer(k, "press Enter to continue: ", "")
	k.Expect("Next: tunctl up jupyter")
	if code, screen := k.End(); code != 0 || answers > 4 {
		t.Errorf("exit code %d after %d answers:\n%s", code, answers, screen)
	}
	text, err := os.ReadFile(config)
	if err != nil || !strings.Contains(string(text), `with   = { queue = "normal", hours = 1, venv = "~/envs/lab" }`) || !strings.HasPrefix(string(text), "[host.practice]\n\n") {
		t.Errorf("%v\n%s", err, text)
	}
	k = startTalk(t, env, "up", "--no-open")
	k.Expect("jupyter\x1b[0m is ready")
	k.WantEnd(0)

	// The second time it can be changed.
	k = startTalk(t, env, "init", "practice")
	k.Expect("[host.practice] is already in the config: practice")
	k.Answer("")
	k.Expect("1) change jupyter       queue=normal hours=1 venv=~/envs/lab")
	k.Expect("2) add another session")
	k.Answer("")
	k.Expect("Settings: queue=normal hours=1 cpus=2 memory=8gb gpus=0 venv=~/envs/lab.")
	k.Answer("queue=nosuch")
	k.Expect(`there is no queue "nosuch"; there are: normal`)
	k.Answer("hours=3")
	k.Expect("press Enter to continue: ")
	k.Answer("")
	k.Expect("changed in")
	k.Expect("Next: tunctl up jupyter")
	k.WantEnd(0)
	changed, err := os.ReadFile(config)
	if want := strings.Replace(string(text), "hours = 1,", "hours = 3,", 1); err != nil || string(changed) != want {
		t.Errorf("%v\n%s, want\n%s", err, changed, want)
	}
}

func TestInitSaysHowToInstallJupyterWhereThereIsNone(t *testing.T) {
	t.Parallel()
	path := withoutJupyter(t)
	c := startPractice(t, lab.Options{Path: path})
	env, config := personAt(t, c)
	k := startTalk(t, env, "init", "practice")
	k.Expect("no Jupyter was found on practice.")
	k.Expect("press Enter to continue: ")
	k.Answer("")
	k.Expect("Next: install Jupyter on practice, once; then start it:")
	k.Expect("  tunctl ssh practice 'python3 -m venv ~/jupyter && ~/jupyter/bin/pip install jupyterlab'\r\n  tunctl up jupyter\r\n")
	k.WantEnd(0)
	text, err := os.ReadFile(config)
	if err != nil || !strings.Contains(string(text), `venv = "~/jupyter"`) {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := os.Stat(filepath.Join(c.Home(), "jupyter")); err == nil {
		t.Error("it was installed")
	}
}

// withoutJupyter is a PATH with this computer's programs but Jupyter.
func withoutJupyter(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("jupyter"); err != nil {
		return os.Getenv("PATH")
	}
	dir := t.TempDir()
	for _, from := range filepath.SplitList(os.Getenv("PATH")) {
		entries, err := os.ReadDir(from)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "jupyter") {
				_ = os.Symlink(filepath.Join(from, e.Name()), filepath.Join(dir, e.Name())) // the first one on the PATH stays
			}
		}
	}
	return dir
}

func TestInitTakesAJobScriptThatThePersonHas(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	env, config := personAt(t, c)
	script := strings.Replace(lab.JobScript(c.Dialect()), "\n\n", "\n# jupyter lab\n: jupyter lab\n\n", 1)
	writeFiles(t, c.Home(), map[string]string{"course/lab.sh": script})
	installJupyter(t, filepath.Join(c.Home(), "envs", "lab"), "4.2.5")
	k := startTalk(t, env, "init", "practice")
	k.Expect("1) ~/course/lab.sh ")
	k.Expect("your job script for jobs called jupyterlab")
	k.Expect("2) ~/envs/lab")
	k.Answer("")
	k.Expect("Next: tunctl up jupyter")
	k.WantEnd(0)
	text, err := os.ReadFile(config)
	for _, want := range []string{"job    = \"jupyterlab\" ", "submit = \"~/course/lab.sh\" ", "workdir = \"~/course\"\n"} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: %q is missing in\n%s", err, want, text)
		}
	}
	k = startTalk(t, env, "up", "--no-open")
	k.Expect("jupyter\x1b[0m is ready")
	k.WantEnd(0)
	k = startTalk(t, env, "init", "practice", "--submit", "~/course/lab.sh")
	k.Expect("Press Enter to use it")
	k.Answer("")
	k.Expect("[session.jupyter] starts ~/course/lab.sh already, so nothing was added")
	k.Expect("Next: tunctl up jupyter\r\n")
	k.WantEnd(0)
	if again, err := os.ReadFile(config); err != nil || string(again) != string(text) {
		t.Errorf("%v: the config is now\n%s", err, again)
	}
}

func TestInitTellsThatTheTestOfTheJobSubmittedIt(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	env, _ := personAt(t, c)
	writeFiles(t, c.Home(), map[string]string{
		".profile": "PATH=$HOME/wrappers:$PATH\n",
		"wrappers/sbatch": `#!/bin/sh
for word; do
	shift
	test "$word" = --test-only || set -- "$@" "$word"
done
PATH=${PATH#*:} exec sbatch "$@"
`,
	})
	installJupyter(t, filepath.Join(c.Home(), "envs", "lab"), "4.2.5")
	k := startTalk(t, env, "init", "practice", "--with", "venv=~/envs/lab")
	k.Expect("press Enter to continue: ")
	k.Answer("")
	k.Expect("does not know tests: it submitted job 1001, which was cancelled at once.")
	k.Expect("Next: tunctl up jupyter")
	k.WantEnd(0)
	k = startTalk(t, env, "up", "--dry-run")
	k.Expect("not asked: a test on practice has submitted a job before")
	k.WantEnd(0)
	if jobs := c.Jobs(); len(jobs) != 1 || !jobs[0].Over() {
		t.Errorf("jobs %+v", jobs)
	}
}
