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
	"tunctl/internal/dev/wait"
	"tunctl/internal/lab"
)

// talk runs tunctl in a terminal, as the user would.
func (s *sandbox) talk(args ...string) *ptytest.Program {
	s.t.Helper()
	return ptytest.Start(s.t, s.command(args...))
}

// newHome is a home with nothing but an ssh config.
func newHome(t *testing.T, sshConfig string) *sandbox {
	t.Helper()
	dir := t.TempDir()
	s := sandboxIn(t, dir, nil, "HOME="+dir, "TERM=xterm", "PATH="+os.Getenv("PATH"), "TUNCTL_SSH_CONFIG="+filepath.Join(dir, "ssh_config"))
	s.write(filepath.Join(dir, "ssh_config"), sshConfig)
	return s
}

// personAt makes a home with a site of its own for a practice cluster.
func personAt(t *testing.T, c *lab.Cluster) *sandbox {
	t.Helper()
	s := newHome(t, "Include "+c.SSHConfig()+"\n")
	s.cluster, s.env = c, append(s.env, "TUNCTL_PRACTICE=1")
	site := "like = \"slurm\"\ntitle = \"our practice cluster\"\n[entrance.main]\nhost = \"practice\"\n[entrance.side]\nhost = \"side.example.org\"\n"
	s.write(filepath.Join(s.home, "sites", "ours.toml"), site)
	return s
}

func TestInit(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	s := personAt(t, c)

	k := s.talk("init")
	k.Expect("Hosts of your ssh config:")
	k.Expect("practice")
	k.Reply("Which cluster?", "?")
	k.Expect("aspire2a")
	k.Expect("Hosts of your ssh config:")
	k.Reply("Which cluster?", "narwal")
	k.Expect("no site \"narwal\": did you mean \"narval\"?")
	k.Reply("Which cluster?", "999")
	k.Expect("No line above has the number 999")
	k.Reply("Which cluster?", "no cluster")
	k.Expect("\"no cluster\" is not a host")
	k.Reply("Which cluster?", "practice cluster")
	k.Expect("1) ours         our practice cluster")
	k.Expect("Which cluster?")
	k.Reply("[ours]", "1")
	k.Reply("Which login node? [main]", "")
	k.Expect("connected to ours")
	k.Reply("Which account is charged?", "def ann")
	k.Expect("must be one word without spaces or quotes")
	k.Answer("cpus=4") // a setting is changed at any question
	k.Reply("cpus = 4", "def-ann")
	k.Reply("How many hours should the job last? [2]", "0.5")
	k.Reply("How many GPUs? [0]", "")
	k.Expect("Other settings:")
	k.Expect("memory     How much memory? [8G]")
	k.Reply("container  An Apptainer or Singularity image to run in", "cores=4")
	k.Reply("\"cores=4\" is not a setting of the job; the settings are: account, ", "cores")
	k.Reply("\"cores\" is not NAME=VALUE with one of the names above", "memory=16")
	k.Reply("with its unit, such as 8G", "memory=16G")
	k.Reply("press Enter to continue", "")
	k.Expect("added to")
	k.Expect("Next: tunctl up jupyter")
	k.WantEnd(0)
	s.wantConfig("[host.ours]\nssh  = \"practice\"\nsite = \"ours\"\n", `with   = { account = "def-ann", partition = "practice", hours = 0.5, cpus = 4, memory = "16G", gpus = 0 }`)
}

func TestInitWritesOnlyWhatWorks(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	s := personAt(t, c)
	k := s.talk("init", "--app", "shell")
	k.Reply("Which cluster?", "elsewhere")
	k.Reply("Your user name on the cluster?", "ann")
	k.Expect("elsewhere is not part of it")
	k.Expect("or type another USER@HOST")
	if s.config() != "" {
		t.Error("there is a config")
	}
	c.FailSubmit("sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)", 1)
	k.Answer("practice")
	k.Expect("connected to practice")
	k.Reply("press Enter to continue", "")
	k.Expect("the scheduler refuses the job: ")
	k.Expect("press Enter to continue")
	c.FailSubmit("", 0)
	k.Answer("hours=1")
	k.Reply("press Enter to continue", "")
	k.Expect("the scheduler would accept the job")
	k.Expect("Next: tunctl up shell")
	k.WantEnd(0)
	before := s.config()
	if strings.Contains(before, "elsewhere") || !strings.Contains(before, "hours = 1") || !strings.HasPrefix(before, "[host.practice]\n\n") {
		t.Error(before)
	}

	// The host is known now, and stays as it is where another cannot be logged in to.
	k = s.talk("init", "practice", "--no-look", "--app", "shell")
	k.Reply("Which scheduler does practice use: slurm, pbs, gridengine or none? [slurm]", "")
	k.Reply("[host.practice] is already in the config: practice", "2")
	k.Reply("\"2\" is not a host", "ann@elsewhere")
	k.Reply("1) change shell", "2")
	k.Reply("Which account", "")
	k.Reply("How many hours", "")
	k.Reply("How many GPUs", "")
	k.Reply("press Enter to continue", "")
	k.Reply("Press Enter to keep practice, or type another USER@HOST", "ann@7")
	k.Expect("\"ann@7\" is not a host")
	k.Type("\x03")
	k.Expect("stopped")
	k.WantEnd(exitInterrupted)
	if after := s.config(); after != before {
		t.Error(after)
	}
	k = s.talk("hosts")
	k.Expect("connected") // as before
	k.WantEnd(0)
}

func TestInitSiteSearch(t *testing.T) {
	t.Parallel()
	k := newHome(t, "Host mycluster\nHostName narval.alliancecan.ca\n").talk("init", "--no-login")
	k.Expect("Probably \x1b[1mnarval\x1b[0m: your ssh config has mycluster.")
	k.Reply("[narval]: ", "singapore")
	k.Expect(") aspire2a ")
	k.Expect("(To use a host called singapore: USER@singapore)")
	k.Expect("lists all")
	k.Answer("national compute infrastructure") // of no title
	k.Expect("is not a host")
	k.Answer("ASPIRE") // of one site
	k.Reply("[aspire2a]: ", "narval")
	k.Expect("narval.alliancecan.ca is in your ssh config as mycluster")
	k.Type("\x03")
	k.Expect("stopped")
	k.WantEnd(exitInterrupted)
}

func TestInitSuggestion(t *testing.T) {
	t.Parallel()
	text := "Host mycluster\nHostName narval.alliancecan.ca\n"
	for n := range 30 {
		text += fmt.Sprintf("Host z%d\nHostName z%d.example.org\n", n, n)
	}
	k := newHome(t, text).talk("init", "--no-login")
	k.Expect("and 21 more")
	k.Reply("[narval]: ", "")
	k.Expect("narval.alliancecan.ca is in your ssh config as mycluster")
	k.Type("\x03")
	k.Expect("stopped")
	_, screen := k.End()
	if before, _, _ := strings.Cut(screen, "[narval]: "); strings.Count(before, "\n") > 16 {
		t.Errorf("too much before the first question:\n%s", before)
	}
}

func TestInitInterrupted(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	s := personAt(t, c)
	for question, args := range map[string][]string{
		"Which login node?":       {"init", "ours"},
		"press Enter to continue": {"init", "practice", "--app", "shell"}, // after the login
	} {
		k := s.talk(args...)
		k.Expect(question)
		k.Type("\x03")
		k.Expect("stopped")
		k.WantEnd(exitInterrupted)
		if s.config() != "" {
			t.Errorf("there is a config after %q", question)
		}
	}
}

func TestAttachChoice(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{QueueFor: -1})
	s := personAt(t, c)
	writeFiles(t, c.Home(), map[string]string{"jupyter.sh": lab.JobScript(c.Dialect())})
	text := "[session.a]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\n[session.b]\nhost = \"practice\"\nsubmit = \"~/jupyter.sh\"\n"
	s.setConfig(text)
	s.run("up", "a", "--no-open")
	s.run("up", "b", "--no-open")
	k := s.talk("attach", "practice", "--no-open")
	k.Expect("Connect to which job? [1-2]")
	k.Type("\x03")
	k.Expect("nothing was done")
	k.WantEnd(exitInterrupted)

	k = s.talk("attach", "practice", "--no-open")
	k.Expect("1) 1002")
	k.Expect("2) 1001")
	k.Reply("Connect to which job? [1-2]", "7")
	k.Expect("type a number from 1 to 2")
	k.Reply("Connect to which job? [1-2]", "2")
	k.Expect("practice-1001\x1b[0m is ready")
	k.WantEnd(0)

	// The same choice for a session whose name several jobs have.
	s.setConfig(text + "[session.c]\nhost = \"practice\"\njob = \"jupyterlab\"\n")
	s.run("agent", "restart")
	k = s.talk("up", "c", "--no-open")
	k.Expect("Several jobs of this name are running on the host:")
	k.Expect("1) 1002")
	k.Reply("Connect to which job? [1-2]", "1001")
	k.Expect("c\x1b[0m is ready")
	k.WantEnd(0)
	if out := s.run("status", "c", "--json"); !strings.Contains(out, `"id": "1001"`) {
		t.Errorf("another job than the chosen one:\n%s", out)
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

func TestInitUnknownPBS(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{Dialect: lab.PBS})
	s := personAt(t, c)
	installJupyter(t, filepath.Join(c.Home(), "envs", "old"), "3.6.8")
	installJupyter(t, filepath.Join(c.Home(), "envs", "lab"), "4.2.5")

	answers := 0
	answer := func(k *ptytest.Program, question, text string) {
		k.Reply(question, text)
		answers++
	}
	k := s.talk("init", "practice")
	k.Expect("connected to practice")
	k.Expect("What should `tunctl up jupyter` start?")
	k.Expect("1) ~/envs/lab  ")
	k.Expect("JupyterLab 4.2.5, a virtual environment (your home folder)")
	k.Expect("2) ~/envs/old")
	answer(k, "[1]: ", "99")
	k.Expect("No line above has the number 99.")
	k.Reply("[1]: ", "?")
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
	s.wantConfig(`with   = { queue = "normal", hours = 1, venv = "~/envs/lab" }`)
	text := s.config()
	if !strings.HasPrefix(text, "[host.practice]\n\n") {
		t.Error(text)
	}
	k = s.talk("up", "--no-open")
	k.Expect("jupyter\x1b[0m is ready")
	k.WantEnd(0)

	// The second time it can be changed.
	k = s.talk("init", "practice")
	k.Reply("[host.practice] is already in the config: practice", "")
	k.Expect("1) change jupyter       queue=normal hours=1 venv=~/envs/lab")
	k.Reply("2) add another session", "")
	k.Reply("Settings: queue=normal hours=1 cpus=2 memory=8gb gpus=0 venv=~/envs/lab.", "queue=nosuch")
	k.Reply(`there is no queue "nosuch"; there are: normal`, "hours=3")
	k.Reply("press Enter to continue: ", "")
	k.Expect("changed in")
	k.Expect("Next: tunctl up jupyter")
	k.WantEnd(0)
	if want := strings.Replace(text, "hours = 1,", "hours = 3,", 1); s.config() != want {
		t.Errorf("%s, want\n%s", s.config(), want)
	}

	// The one that --session names is changed without a question which.
	k = s.talk("init", "practice", "--session", "jupyter", "--with", "hours=4")
	k.Reply("[host.practice] is already in the config: practice", "")
	k.Reply("Settings: queue=normal hours=4 ", "")
	k.Expect("changed in")
	k.WantEnd(0)
}

func TestInitWithoutJupyter(t *testing.T) {
	t.Parallel()
	path := withoutJupyter(t)
	c := startPractice(t, lab.Options{Path: path})
	s := personAt(t, c)
	k := s.talk("init", "practice")
	k.Expect("no Jupyter was found on practice.")
	k.Reply("press Enter to continue: ", "")
	k.Expect("Next: install Jupyter on practice, once; then start it:")
	k.Expect("  tunctl ssh practice 'python3 -m venv ~/jupyter && ~/jupyter/bin/pip install jupyterlab'\r\n  tunctl up jupyter\r\n")
	k.WantEnd(0)
	s.wantConfig(`venv = "~/jupyter"`)
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

func TestInitOwnScript(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	s := personAt(t, c)
	script := strings.Replace(lab.JobScript(c.Dialect()), "\n\n", "\n# jupyter lab\n: jupyter lab\n\n", 1)
	writeFiles(t, c.Home(), map[string]string{"course/lab.sh": script})
	installJupyter(t, filepath.Join(c.Home(), "envs", "lab"), "4.2.5")
	k := s.talk("init", "practice")
	k.Expect("1) ~/course/lab.sh ")
	k.Expect("your job script for jobs called jupyterlab")
	k.Reply("2) ~/envs/lab", "")
	k.Expect("Next: tunctl up jupyter")
	k.WantEnd(0)
	s.wantConfig("job    = \"jupyterlab\" ", "submit = \"~/course/lab.sh\" ", "workdir = \"~/course\"\n")
	text := s.config()
	k = s.talk("up", "--no-open")
	k.Expect("jupyter\x1b[0m is ready")
	k.WantEnd(0)
	k = s.talk("init", "practice", "--submit", "~/course/lab.sh")
	k.Reply("Press Enter to use it", "")
	k.Expect("[session.jupyter] uses ~/course/lab.sh already, so nothing was added")
	k.Expect("Next: tunctl up jupyter\r\n")
	k.WantEnd(0)
	k = s.talk("init", "practice") // the script is offered last, since it adds nothing
	k.Reply("Press Enter to use it", "")
	k.Expect("so a new one is called jupyter-practice")
	k.Expect("1) ~/envs/lab")
	k.Reply("3) ~/course/lab.sh ", "3")
	k.Expect("so nothing was added")
	k.WantEnd(0)
	k = s.talk("init", "practice", "--submit", "nofile.sh", "--session", "mine")
	k.Reply("Press Enter to use it", "")
	k.Expect("cannot read the job script \"nofile.sh\" on the host")
	k.Expect("nothing was written")
	k.WantEnd(1)
	if again := s.config(); again != text {
		t.Errorf("the config is now\n%s", again)
	}
}

// TestInitImpossible has a scheduler that does not compare a job with its partition.
func TestInitImpossible(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	s := personAt(t, c)
	writeFiles(t, c.Home(), map[string]string{
		".profile": "PATH=$HOME/wrappers:$PATH\n",
		"wrappers/sbatch": "#!/bin/sh\n" +
			"echo 'sbatch: Job 1001 to start at 2038-01-01T00:00:00 using 1 processors on nodes cn01 in partition practice' >&2\n",
	})
	k := s.talk("init", "practice", "--app", "shell", "--with", "hours=99")
	k.Reply("press Enter to continue: ", "cpus=64")
	k.Reply("cpus = 64 is not possible there: at most 4", "")
	k.Expect("the scheduler does not refuse the job, but it cannot start: hours = 99 is not possible there: at most 8")
	k.Expect("Next: tunctl up shell")
	k.WantEnd(0)
}

func TestInitTestSubmits(t *testing.T) {
	t.Parallel()
	c := startPractice(t, lab.Options{})
	s := personAt(t, c)
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
	k := s.talk("init", "practice", "--with", "venv=~/envs/lab")
	k.Reply("press Enter to continue: ", "")
	k.Expect("does not know tests: it submitted job 1001, which was cancelled at once.")
	k.Expect("Next: tunctl up jupyter")
	k.WantEnd(0)
	k = s.talk("up", "--dry-run")
	k.Expect("not asked: a test on practice has submitted a job before")
	k.WantEnd(0)
	wait.Until(t, "the end of the job", func() bool { return c.Jobs()[0].Over() })
	if jobs := c.Jobs(); len(jobs) != 1 {
		t.Errorf("jobs %+v", jobs)
	}
}
