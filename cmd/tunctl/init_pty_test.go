//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/lab"
	"tunctl/internal/ptytest"
)

// startTalk runs the program in a terminal, as a person would.
func startTalk(t *testing.T, env []string, args ...string) *ptytest.Program {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = env
	return ptytest.Start(t, cmd)
}

// personAt makes a home with a site of its own for a practice cluster.
func personAt(t *testing.T, c *lab.Cluster) (env []string, config string) {
	t.Helper()
	dir := t.TempDir()
	site := "like = \"slurm\"\ntitle = \"our practice cluster\"\n[entrance.main]\nhost = \"practice\"\n[entrance.side]\nhost = \"side.example.org\"\n"
	if err := os.MkdirAll(filepath.Join(dir, "sites"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sites", "ours.toml"), []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
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
	c, err := lab.Start(lab.Options{Dir: t.TempDir(), PageCommand: []string{program, practicePage}})
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = c.Close() }()
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
	k.Expect("[host.ours] added to")
	k.Expect("connected to ours")
	k.Expect("Which account is charged?")
	k.Answer("def ann")
	k.Expect("must be one word without spaces or quotes")
	k.Answer("def-ann")
	k.Expect("How many hours should the job last? [2]")
	k.Answer("0.5")
	k.Expect("How many GPUs? [0]")
	k.Answer("")
	k.Expect("Other settings:")
	k.Expect("memory     How much memory? [8G]")
	k.Expect("container  An Apptainer or Singularity image to run in")
	k.Answer("cores=4")
	k.Expect("\"cores=4\" is not NAME=VALUE with one of the names above")
	k.Answer("memory=16")
	k.Expect("with its unit, such as 8G")
	k.Answer("memory=16G")
	k.Expect("press Enter to continue")
	k.Answer("")
	k.Expect("added to")
	k.Expect("Next: tunctl up jupyter")
	if code, _ := k.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[host.ours]\nssh  = \"practice\"\nsite = \"ours\"\n", `with   = { account = "def-ann", hours = 0.5, memory = "16G", gpus = 0 }`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestAnyHostCanBeNamedInTheInterview(t *testing.T) {
	t.Parallel()
	c, err := lab.Start(lab.Options{Dir: t.TempDir(), PageCommand: []string{program, practicePage}})
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = c.Close() }()
	env, config := personAt(t, c)
	k := startTalk(t, env, "init")
	k.Expect("Which cluster?")
	k.Answer("elsewhere")
	k.Expect("Your user name on the cluster?")
	k.Answer("ann")
	k.Expect("The login failed, but the config was written: `tunctl init elsewhere` tries again.")
	k.Expect("error: ")
	if code, _ := k.End(); code == 0 {
		t.Error("a login that failed is a success")
	}
	text, err := os.ReadFile(config)
	if err != nil || !strings.Contains(string(text), "[host.elsewhere]\nssh  = \"ann@elsewhere\"\n") {
		t.Errorf("%v\n%s", err, text)
	}

	// The host is known now; without a look, its scheduler is asked for.
	k = startTalk(t, env, "init", "elsewhere", "--no-look")
	k.Expect("Which scheduler does elsewhere use: slurm, pbs, gridengine or none? [slurm]")
	k.Answer("none")
	k.Expect("[host.elsewhere] is already in the config (ann@elsewhere)")
	k.Expect("press Enter to continue")
	k.Answer("")
	k.Expect("The login failed, but the config was written: `tunctl login elsewhere` tries again.")
	if code, _ := k.End(); code == 0 {
		t.Error("a login that failed is a success")
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
	if code, _ := k.End(); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
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
	c, err := lab.Start(lab.Options{Dir: t.TempDir(), PageCommand: []string{program, practicePage}})
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = c.Close() }()
	env, config := personAt(t, c)
	k := startTalk(t, env, "init", "ours")
	k.Expect("Which login node?")
	k.Type("\x03")
	k.Expect("stopped")
	if code, _ := k.End(); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(config); err == nil {
		t.Error("there is a config")
	}
}

func TestAPersonChoosesAmongSeveralJobs(t *testing.T) {
	t.Parallel()
	c, err := lab.Start(lab.Options{Dir: t.TempDir(), PageCommand: []string{program, practicePage}, QueueFor: -1})
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = c.Close() }()
	env, config := personAt(t, c)
	script := filepath.Join(c.Home(), "jupyter.sh")
	if err := os.WriteFile(script, []byte(lab.JobScript(c.Dialect())), 0o600); err != nil {
		t.Fatal(err)
	}
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
	k.Expect("Which one? [1-2]")
	k.Type("\x03")
	k.Expect("nothing was done")
	if code, _ := k.End(); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}

	k = startTalk(t, env, "attach", "practice", "--no-open")
	k.Expect("1) 1002")
	k.Expect("2) 1001")
	k.Expect("Which one? [1-2]")
	k.Answer("7")
	k.Expect("type a number from 1 to 2")
	k.Expect("Which one? [1-2]")
	k.Answer("2")
	k.Expect("practice-1001\x1b[0m is ready")
	if code, _ := k.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}

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
	k.Expect("Which one? [1-2]")
	k.Answer("1001")
	k.Expect("c\x1b[0m is ready")
	if code, _ := k.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	cmd = exec.CommandContext(t.Context(), program, "status", "c", "--json")
	cmd.Env = env
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), `"id": "1001"`) {
		t.Errorf("%v: another job than the chosen one:\n%s", err, out)
	}
}
