package configs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"tunctl/internal/dev/testprogram"
)

// scripted runs the job's script with programs that stand for those of a compute node,
// and returns what it printed.
func scripted(t *testing.T, j *Job, programs map[string]string, env ...string) string {
	t.Helper()
	text, err := j.Script()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	bin := filepath.Join(home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"jupyter": "echo 4.0.0"} // never a real one
	maps.Copy(all, programs)
	for name, body := range all {
		if err := testprogram.Write(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body+"\n")); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(home, "job.sh")
	if err := os.WriteFile(script, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `umask 0027; . "$0"`, script)
	cmd.Dir = home
	cmd.Env = append([]string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "SLURMD_NODENAME=localhost"}, env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%v\n%s", err, out)
	return strings.ReplaceAll(string(out), home, "HOME")
}

func siteJob(t *testing.T, site string, answers map[string]string) *Job {
	t.Helper()
	s, err := builtinSites(t).Find(site)
	if err != nil {
		t.Fatal(err)
	}
	return &Job{App: "jupyter", Name: "jupyter", Site: s, Answers: answers}
}

// enters stands for a program that enters a container: it says how it was called.
const enters = `echo "entered: $(basename "$0") $*"`

func TestFilesThatAPersonSavesHaveTheModeTheyWouldHaveAnyway(t *testing.T) {
	out := scripted(t, siteJob(t, "slurm", map[string]string{}), map[string]string{
		"jupyter": `case $* in *--version*) echo 4.0.0; exit ;; esac; echo "umask $(umask)"; ls -ld "$private" | cut -c1-10`,
	})
	wantAll(t, out, "umask 0027", "drwx------")
}

func TestAServerThatSrunStartsHasTheCPUsOfTheJob(t *testing.T) {
	out := scripted(t, siteJob(t, "dfki", map[string]string{"image": "~/a.sqsh"}), map[string]string{"srun": `echo "srun has $SRUN_CPUS_PER_TASK CPUs"`}, "SLURM_CPUS_PER_TASK=8")
	wantAll(t, out, "srun has 8 CPUs")
}

func TestAspireSaysWhatItStartsWithoutSoftware(t *testing.T) {
	job := func(answers map[string]string) *Job {
		j := siteJob(t, "aspire2a", answers)
		j.Site.Scheduler = "slurm" // whose script does not redirect its output
		return j
	}
	const chosen = "no software was chosen"
	wantAll(t, scripted(t, job(map[string]string{}), nil), chosen+": set container, modules, conda or venv")
	wantNone(t, scripted(t, job(map[string]string{"container": "~/a.sif"}), map[string]string{"singularity": enters}), chosen)
	j := job(map[string]string{})
	image := filepath.Join(t.TempDir(), "image.sif")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j.Site.Job.Setup = regexp.MustCompile(`container=/\S+`).ReplaceAllLiteralString(j.Site.Job.Setup, "container="+image)
	wantAll(t, scripted(t, j, map[string]string{"singularity": enters}), chosen+", so the server runs in the workshop's image", "entered: singularity exec")
}

func TestSoftwareOutsideTheSitesContainerIsRefused(t *testing.T) {
	for _, name := range []string{"modules", "conda", "venv", "container"} {
		j := siteJob(t, "pegasus", map[string]string{"image": "~/a.sqsh", name: "x"})
		if _, err := j.Script(); err == nil {
			t.Errorf("%s is accepted and has no effect", name)
		}
	}
	// Variables of the environment must not take their place.
	out := scripted(t, siteJob(t, "pegasus", map[string]string{"image": "~/a.sqsh"}), map[string]string{"srun": enters}, "modules=x", "conda=x", "venv=x", "container=x")
	wantAll(t, out, "entered: srun")
}

func TestATypeOfGPUCanBeChosenOnAnySlurm(t *testing.T) {
	for with, want := range map[string]string{"h100": "#SBATCH --gres=gpu:h100:2\n", "": "#SBATCH --gres=gpu:2\n"} {
		text, err := siteJob(t, "slurm", map[string]string{"gpus": "2", "gpu_type": with}).Script()
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%q: %v\n%s", with, err, text)
		}
	}
	// A site with directives of its own has no question that it does not use.
	if _, err := siteJob(t, "euler", map[string]string{"gpu_type": "h100"}).Script(); err == nil {
		t.Error("the type of GPU of a site without that question has no effect")
	}
}

func TestAContainerSeesTheGPUsAndTheSitesFolders(t *testing.T) {
	scratch := t.TempDir()
	for _, c := range []struct {
		name    string
		answers map[string]string
		want    []string
		not     string
	}{
		{"with GPUs", map[string]string{"container": "~/pytorch.sif", "gpus": "1"}, []string{"entered: apptainer exec", " --nv ", "--bind " + scratch, "HOME/pytorch.sif sh -c"}, "--rocm"},
		{"without", map[string]string{"container": "/images/x.sif", "gpus": "0"}, []string{"/images/x.sif sh -c"}, "--nv"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := os.Stat("/dev/nvidiactl"); err == nil && c.not == "--nv" {
				c.not = "--rocm" // this machine has GPUs of its own
			}
			j := siteJob(t, "slurm", c.answers)
			j.Site.Job.Binds = []string{"$SCRATCH", "/there/is/no/such/folder"}
			out := scripted(t, j, map[string]string{"apptainer": enters}, "SCRATCH="+scratch)
			wantAll(t, out, c.want...)
			if strings.Contains(out, c.not) || strings.Contains(out, "/there/is/no/such/folder") {
				t.Errorf("%q, or a folder that is not there, is in:\n%s", c.not, out)
			}
		})
	}
}

func TestMountsAreExpandedAndNotDoubled(t *testing.T) {
	out := scripted(t, siteJob(t, "dfki", map[string]string{"image": "~/a.sqsh", "mounts": "/data:/data,/ds,~/shared"}), map[string]string{"srun": enters})
	wantAll(t, out, "--container-image=HOME/a.sqsh", ",/data:/data,/ds:/ds,HOME/shared:HOME/shared ")
}

func TestCondaIsFoundWhereTheEnvironmentLies(t *testing.T) {
	conda := t.TempDir()
	env := filepath.Join(conda, "envs", "ml")
	for path, text := range map[string]string{
		filepath.Join(conda, "bin", "conda"): "#!/bin/sh\necho 'conda() { echo \"conda $*\"; }'\n",
		filepath.Join(env, "x"):              "",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := testprogram.Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	out := scripted(t, siteJob(t, "slurm", map[string]string{"conda": env}), nil)
	wantAll(t, out, "conda activate "+env)
	out = scripted(t, siteJob(t, "slurm", map[string]string{"conda": "ml"}), nil)
	wantAll(t, out, "environment ml cannot be activated")
}

func TestAVirtualEnvironmentThatIsNotThereIsTheAnswerToChange(t *testing.T) {
	out := scripted(t, siteJob(t, "slurm", map[string]string{"venv": "/no/such/venv"}), nil)
	wantAll(t, out, "tunctl: no virtual environment in /no/such/venv: set venv in the session's with = { … }, or make it on the login node:",
		"tunctl: python3 -m venv /no/such/venv && /no/such/venv/bin/pip install jupyterlab")
}

func TestTheLogGoesToThePrivateFolderUnlessItsPlaceIsSaid(t *testing.T) {
	here := "exec >>\"./$PBS_JOBNAME.$PBS_JOBID.log\""
	for name, c := range map[string]struct {
		site       string
		host       Host
		log        string
		want, line string // the folder, and a line of the script
	}{
		"in the home folder":                   {site: "slurm", want: "/h/.tunctl/logs"},
		"the host's":                           {site: "slurm", host: Host{Private: "$SCRATCH/.tunctl"}, want: "/s/.tunctl/logs"},
		"where only an answer knows it":        {site: "sdumont", want: "/scratch/a b/.tunctl/logs"},
		"the session's":                        {site: "slurm", log: "~/{id}.log"},
		"PBS":                                  {site: "pbs", want: "/h/.tunctl/logs", line: "exec >>\"$HOME/.tunctl/logs/$PBS_JOBNAME.$PBS_JOBID.log\""},
		"PBS, the session's":                   {site: "pbs", log: "~/{id}.log", line: here},
		"PBS, in a folder known to the script": {site: "pbs", host: Host{Private: "$SCRATCH/.tunctl"}, line: here},
	} {
		j := siteJob(t, c.site, map[string]string{})
		if c.site == "sdumont" {
			j.Answers = map[string]string{"folder": "/scratch/a b", "partition": "gdl"}
		}
		j.Host, j.Log = c.host, c.log
		word, err := j.LogFolder()
		if err != nil {
			t.Fatal(err)
		}
		sh := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+word)
		sh.Env = []string{"HOME=/h", "SCRATCH=/s"}
		if out, err := sh.Output(); err != nil || string(out) != c.want {
			t.Errorf("%s: %s is %q, %v", name, word, out, err)
		}
		if text, err := j.Script(); err != nil || !strings.Contains(string(text), c.line) {
			t.Errorf("%s: %v, no %s in\n%s", name, err, c.line, text)
		}
	}
}

func TestAJobToWorkInKeepsItsNodeAndEndsCleanly(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	for _, site := range []string{"slurm", "pbs", "gridengine"} {
		t.Run(site, func(t *testing.T) {
			home := t.TempDir()
			venv := filepath.Join(home, "venv", "bin")
			err := errors.Join(os.MkdirAll(venv, 0o755), os.WriteFile(filepath.Join(venv, "activate"), []byte("export MINE=1 PATH="+venv+":$PATH\n"), 0o600))
			if err != nil {
				t.Fatal(err)
			}
			j := siteJob(t, site, map[string]string{"venv": filepath.Dir(venv)})
			j.App, j.Name = ShellApp, ShellApp
			text, err := j.Script()
			if err != nil {
				t.Fatal(err)
			}
			script := filepath.Join(home, "job.sh")
			if err := os.WriteFile(script, text, 0o600); err != nil {
				t.Fatal(err)
			}
			log := filepath.Join(home, ".tunctl", "logs", "shell.7.log")
			if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
				t.Fatal(err)
			}
			out, err := os.Create(log)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = out.Close() }()
			cmd := exec.CommandContext(t.Context(), bash, script)
			cmd.Dir, cmd.Stdout, cmd.Stderr = home, out, out
			cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "SLURMD_NODENAME=cn01", "SLURM_JOB_ID=7", "PBS_JOBID=7", "PBS_JOBNAME=shell", "PBS_O_WORKDIR=" + home, "JOB_ID=7"}
			waits := filepath.Join(home, "waits")
			if err := errors.Join(exec.CommandContext(t.Context(), "mkfifo", waits).Run(), testprogram.Write(filepath.Join(venv, "sleep"), []byte("#!/bin/sh\necho >"+waits+"\nexec /bin/sleep \"$@\"\n"))); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.ReadFile(waits); err != nil { // until it waits
				t.Fatal(err)
			}
			if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid)); err == nil && !strings.Contains(string(env), "MINE=1\x00") {
				t.Errorf("the first process of the job has the environment %q", env)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 143 {
				t.Errorf("it ended with %v", cmd.ProcessState)
			}
			said, err := os.ReadFile(log)
			if want := "tunctl: job 7 keeps cn01 for shells and editors\n"; err != nil || string(said) != want {
				t.Errorf("its log is %q, %v; want %q", said, err, want)
			}
			if _, err := os.Stat(filepath.Join(home, ".tunctl", "job.7")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it leaves its folder: %v", err)
			}
		})
	}
}

func TestAnEnvironmentIsMadeOnTheNodesOwnDiskWhereNoneIsNamed(t *testing.T) {
	disk := t.TempDir()
	programs := map[string]string{
		"virtualenv": `mkdir -p "$2/bin" && echo 'echo activated' >"$2/bin/activate"`,
		"pip":        `echo "pip $*"`,
	}
	login := map[string]string{"account": "def-ann", "modules": ""}
	j := siteJob(t, "narval", maps.Clone(login))
	j.Answers["packages"] = "torch"
	out := scripted(t, j, programs, "SLURM_TMPDIR="+disk)
	wantAll(t, out, "activated", "pip install --no-index --upgrade pip jupyterlab torch")
	if _, err := os.Stat(filepath.Join(disk, "env")); err != nil {
		t.Error(err)
	}
	board := siteJob(t, "narval", login)
	board.App = "tensorboard"
	wantAll(t, scripted(t, board, programs, "SLURM_TMPDIR="+disk), "pip install --no-index --upgrade pip tensorboard")
	if out := scripted(t, siteJob(t, "narval", login), programs, "SLURM_TMPDIR="+disk); strings.Contains(out, "pip install") {
		t.Errorf("an environment was made although Jupyter is there:\n%s", out)
	}
	venv := filepath.Join(disk, "env")
	out = scripted(t, siteJob(t, "narval", map[string]string{"account": "def-ann", "modules": "", "venv": venv}), programs)
	if strings.Contains(out, "pip install") {
		t.Errorf("a second environment was made:\n%s", out)
	}
}

func TestAPortIsTakenOnlyWhereTheServerWillBind(t *testing.T) {
	text, err := siteJob(t, "m3", map[string]string{"account": "ab12"}).Script()
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, string(text), "bind=127.0.0.1\n", `tested=("$bind")`)
}

func TestAJobsNameCannotBringOptionsAlong(t *testing.T) {
	for _, name := range []string{"my notebook", "a/b", "x\n#SBATCH --uid=0", "--wrap=id", ""} {
		j := siteJob(t, "slurm", map[string]string{})
		j.Name = name
		if text, err := j.Script(); err == nil {
			t.Errorf("%q was taken:\n%s", name, text)
		}
	}
}

func TestAShortTimeIsNoTimeWithoutLimit(t *testing.T) {
	for hours, want := range map[string]string{"0.005": "00:01:00", "0.5": "00:30:00", "1.51": "01:31:00", "168": "168:00:00"} {
		if got, err := hms(hours); err != nil || got != want {
			t.Errorf("%s hours are %q, %v; want %q", hours, got, err, want)
		}
	}
}

func TestTheShellReadsTheProfileWhereModulesNeedIt(t *testing.T) {
	for site, answers := range map[string]map[string]string{"slurm": {"modules": "python/3.11"}, "aspire2a": {}} {
		if text, err := siteJob(t, site, answers).Script(); err != nil || !strings.HasPrefix(string(text), "#!/bin/bash -l\n") {
			t.Errorf("%s: %v\n%.40s", site, err, text)
		}
	}
	if text, err := siteJob(t, "slurm", map[string]string{}).Script(); err != nil || !strings.HasPrefix(string(text), "#!/bin/bash\n") {
		t.Errorf("%v\n%.40s", err, text)
	}
}

func TestTheProbeIsTheChosenEntrances(t *testing.T) {
	sites := builtinSites(t)
	for _, c := range []struct{ site, host, want string }{
		{"aspire2a", "aspire2antu.nscc.sg", "aspire2antu.nscc.sg:22"},
		{"aspire2a", "ASPIRE2A.nscc.sg", "ASPIRE2A.nscc.sg:22"},
		{"aspire2a", "jump.example.org", ""}, // reached in a way of the user's own
		{"narval", "narval.alliancecan.ca", ""},
	} {
		s, err := sites.Find(c.site)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.ProbeAt(c.host); got != c.want {
			t.Errorf("%s at %s is probed at %q, want %q", c.site, c.host, got, c.want)
		}
	}
	s := Site{Before: "Connect to the VPN.", Probe: "inside.example.org:443", Entrances: []Entrance{{Host: "login.example.org"}}}
	if got := s.ProbeAt("login.example.org"); got != s.Probe {
		t.Errorf("the site's own probe is not asked: %q", got)
	}
}

func TestAJobNameIsOneThatPBSKeepsWhole(t *testing.T) {
	for name, want := range map[string]string{
		"jupyter":              "jupyter",
		"jupyter-aspire2":      "jupyter-aspire2",
		"jupyter-aspire2a":     "jupyter-aspire2",
		"jupyter-aspire2a-2":   "jupyter-aspir-2",
		"jupyter-aspire2a-17":  "jupyter-aspi-17",
		"2nd-notebook":         "j2nd-notebook",
		"run-1234567890123456": "run-12345678901",
	} {
		site := Site{Scheduler: "pbs"}
		if got := site.JobName(name); got != want || site.JobName(got) != got {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
		if got := (&Site{Scheduler: "slurm"}).JobName(name); got != name {
			t.Errorf("Slurm cuts nothing: %q", got)
		}
	}
}

func TestAJobListensWhereTheLoginNodeDialsItsNode(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	const known = "getent() { case $2 in cn01.hsn.example.org) echo 10.253.0.1 ;; cn01) echo 10.0.0.1 ;; lo-nmn) echo 127.0.1.1 ;; *) return 2 ;; esac; }\n"
	for _, c := range []struct {
		node string
		dial []string
		want string
	}{
		{"cn01.int", []string{"{node}-nmn", "{node}.hsn.example.org"}, "cn01.hsn.example.org"},
		{"cn02", []string{"{node}-nmn"}, "0.0.0.0"}, // the node does not know that name
		{"lo", []string{"{node}-nmn"}, "0.0.0.0"},
		{"cn01", []string{"{address}"}, "cn01"},
		{"cn01", nil, "cn01"},
		{"cn02", nil, "0.0.0.0"},
	} {
		j := siteJob(t, "slurm", map[string]string{})
		j.Site.Dial = c.dial
		text, err := j.Script()
		if err != nil {
			t.Fatal(err)
		}
		_, part, _ := strings.Cut(string(text), "# Where to listen.\n")
		part, _, _ = strings.Cut(part, "# A port is free")
		cmd := exec.CommandContext(t.Context(), bash, "-c", known+part+`echo "$bind"`)
		cmd.Env = []string{"SLURMD_NODENAME=" + c.node, "PATH=/usr/bin:/bin"}
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != c.want {
			t.Errorf("%+v: %q, %v", c, out, err)
		}
	}
}

func TestAJobWritesNoTokenIntoAnothersFolder(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs bash, and root to make another user's folder")
	}
	run := func(folder string) (string, error) {
		j := siteJob(t, "slurm", map[string]string{})
		j.Host.Private = folder
		text, err := j.Script()
		if err != nil {
			t.Fatal(err)
		}
		part, _, _ := strings.Cut(string(text), "\nrun=()")
		out, err := exec.CommandContext(t.Context(), bash, "-c", part+"\necho made \"$private\"").CombinedOutput()
		return string(out), err
	}
	mine, theirs := filepath.Join(t.TempDir(), ".tunctl"), filepath.Join(t.TempDir(), ".tunctl")
	if err := errors.Join(os.MkdirAll(theirs, 0o777), os.Chown(theirs, 4242, 4242)); err != nil {
		t.Fatal(err)
	}
	if out, err := run(mine); err != nil || !strings.Contains(out, "made "+mine+"/job.") {
		t.Errorf("%v: %s", err, out)
	}
	if info, err := os.Stat(mine); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if out, err := run(theirs); err == nil || !strings.Contains(out, "belongs to another user") {
		t.Errorf("%v: %s", err, out)
	}
	link := filepath.Join(t.TempDir(), ".tunctl")
	if err := os.Symlink(mine, link); err != nil {
		t.Fatal(err)
	}
	if out, err := run(link); err != nil {
		t.Errorf("through a link of one's own: %v: %s", err, out)
	}
	if err := os.Lchown(link, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if out, err := run(link); err == nil || !strings.Contains(out, "belongs to another user") {
		t.Errorf("through another's link: %v: %s", err, out)
	}
}

// builtinJob is a builtin job on a plain Slurm cluster.
func builtinJob(t *testing.T, app string) *Job {
	t.Helper()
	j := siteJob(t, "slurm", map[string]string{})
	j.App, j.Name = app, app
	return j
}

// showsSecrets prints, from a program that stands for a server, what others could see of it.
const showsSecrets = `
password=$(cat "$private/password")
case "$* $(env)" in *"$password"*) echo "the password is on the command line or in the environment" ;; esac
[ -z "$(find "$private" ! -type d -perm /077)" ] || echo "a file that others may read"
`

func TestCodeServerGetsItsPasswordFromAPrivateFile(t *testing.T) {
	out := scripted(t, builtinJob(t, "code-server"), map[string]string{
		"code-server": showsSecrets + `echo "called with $*"; cat "$2"; echo "PASSWORD is '$PASSWORD'"; cat "$private/server.json"`,
	}, "PASSWORD=of-another-server")
	wantAll(t, out, "tunctl: code-server will be at http://localhost:", "(password in HOME/.tunctl/job.", "auth: password", "cert: false", "PASSWORD is ''",
		"called with --config HOME/.tunctl/job.")
	wantNone(t, out, "the password is on", "a file that others may read")
	inConfig := regexp.MustCompile(`(?m)^password: (\w{48})$`).FindStringSubmatch(out)
	if inConfig == nil || !strings.Contains(out, `"token": "`+inConfig[1]+`"}`) {
		t.Errorf("the file for tunctl has another password:\n%s", out)
	}
	if port := regexp.MustCompile(`bind-addr: \S+:(\d+)`).FindStringSubmatch(out); port == nil || !strings.Contains(out, `"port": `+port[1]+",") || !strings.Contains(out, ":"+port[1]+"/ (password") {
		t.Errorf("the ports differ:\n%s", out)
	}
}

func TestRStudioAcceptsThePersonWithThePasswordOnly(t *testing.T) {
	out := scripted(t, builtinJob(t, "rstudio"), map[string]string{
		"R": ":",
		"rserver": `case $1 in --help) echo "--server-user --server-data-dir --secure-cookie-key-file --rsession-which-r"; exit ;; esac
` + showsSecrets + `
echo "called with $*"
for word; do case $word in --auth-pam-helper-path=*) helper=${word#*=} ;; --server-data-dir=*) data=${word#*=} ;; esac; done
echo "data: $(ls -ld "$data" | cut -c1-10) $(cat "$data/database.conf" | head -n 1)"
ask() { if printf '%s\n' "$2" | "$helper" "$1"; then echo "$3: in"; else echo "$3: out"; fi; }
ask "$(id -un)" "$(cat "$private/password")" right
ask "$(id -un)" wrong "wrong password"
ask "$(id -un)" "" "no password"
ask somebody "$(cat "$private/password")" "wrong name"`,
	})
	wantAll(t, out, "tunctl: rstudio will be at http://localhost:", "right: in", "wrong password: out", "no password: out", "wrong name: out",
		"--auth-none=0", "--server-daemonize=0", "--server-data-dir=", "--rsession-which-r=HOME/bin/R", "data: drwx------ provider=sqlite")
	wantNone(t, out, "the password is on", "a file that others may read", "--database-config-file") // which this version does not know
	data := regexp.MustCompile(`--server-data-dir=(\S+)`).FindStringSubmatch(out)
	if data == nil {
		t.Fatal("no folder for data")
	}
	if _, err := os.Stat(data[1]); err == nil {
		t.Errorf("the folder %s is left", data[1])
	}
}

// desktopPrograms stand for those that a desktop needs.
func desktopPrograms() map[string]string {
	return map[string]string{
		"Xtigervnc":        showsSecrets + `[ "$1" != -version ] || exit 0; echo "X: $*" >&2; echo 9 >&7; exec sleep 100`,
		"tigervncpasswd":   `cat`,
		"websockify":       showsSecrets + `echo "proxy: $*" >~/proxied; exec sleep 100`,
		"desk":             `echo "on $DISPLAY with $(head -c 26 "$XAUTHORITY" | tail -c 18) and bus '$DBUS_SESSION_BUS_ADDRESS'" >>~/drawn`,
		"dbus-run-session": `shift; exec "$@"`,
	}
}

func TestADesktopEndsWhenItsSessionEnds(t *testing.T) {
	novnc := t.TempDir()
	if err := os.WriteFile(filepath.Join(novnc, "vnc.html"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j := builtinJob(t, "desktop")
	j.Answers = map[string]string{"desktop": "desk", "novnc": novnc}
	programs := desktopPrograms()
	programs["desk"] += "\ncat ~/proxied ~/drawn \"$private/desktop.log\" >~/said"
	j.Prepare = "mkfifo ~/proxied\ntrap 'cat ~/said; rm -rf \"$private\"' EXIT"
	out := scripted(t, j, programs, "DBUS_SESSION_BUS_ADDRESS=of-the-login-node")
	wantAll(t, out, "tunctl: novnc will be at http://localhost:", "/vnc.html (password in HOME/.tunctl/job.", "tunctl: the desktop has ended",
		"on :9 with MIT-MAGIC-COOKIE-1 and bus ''", "-localhost", "-SecurityTypes VncAuth", "127.0.0.1:5909", "--web "+novnc)
	wantNone(t, out, "the password is on", "a file that others may read")
}

func TestABuiltinJobSaysWhatIsMissing(t *testing.T) {
	none := func(names ...string) map[string]string {
		programs := desktopPrograms()
		for _, name := range names {
			delete(programs, name)
		}
		return programs
	}
	for _, c := range []struct {
		app      string
		programs map[string]string
		answers  map[string]string
		want     string
	}{
		{"code-server", nil, nil, "tunctl: code-server is not installed here\n"},
		{"rstudio", nil, nil, "tunctl: RStudio is not installed here: there is no program rserver\n"},
		{"tensorboard", map[string]string{"python3": "exit 1"}, nil, "tunctl: TensorBoard is not installed here\n"},
		{"desktop", none("Xtigervnc"), nil, "tunctl: a VNC server (TigerVNC or TurboVNC) is not installed here\n"},
		{"desktop", none("websockify"), nil, "tunctl: websockify is not installed here\n"},
		{"desktop", none(), nil, "tunctl: noVNC is not installed here\n"},
		{"desktop", none(), map[string]string{"novnc": "NOVNC", "desktop": "startfvwm"}, "tunctl: the desktop startfvwm is not installed here\n"},
	} {
		t.Run(c.app, func(t *testing.T) {
			if _, err := os.Stat("/usr/share/novnc"); err == nil && strings.Contains(c.want, "noVNC") {
				t.Skip("noVNC is installed here")
			}
			novnc := t.TempDir()
			if err := os.WriteFile(filepath.Join(novnc, "vnc.html"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			j := builtinJob(t, c.app)
			for name, answer := range c.answers {
				j.Answers[name] = strings.ReplaceAll(answer, "NOVNC", novnc)
			}
			out := scripted(t, j, withSystem(c.programs), onlyBin)
			wantAll(t, out, c.want, "tunctl: set modules")
		})
	}
}

// onlyBin has a script see the programs beside it only.
const onlyBin = "PATH=bin"

// withSystem adds the programs of the system that every job uses.
func withSystem(programs map[string]string) map[string]string {
	all := map[string]string{}
	for _, name := range []string{"bash", "sh", "cat", "head", "od", "tr", "base64", "mkdir", "rm", "chmod", "hostname", "id", "find", "getent", "mktemp"} {
		if path, err := exec.LookPath(name); err == nil { // macOS has no getent
			all[name] = `exec ` + path + ` "$@"`
		}
	}
	for name, body := range programs {
		all[name] = body
	}
	return all
}

func TestACommandGetsItsPortAndListensOnLoopback(t *testing.T) {
	for _, c := range []struct{ command, want, page string }{
		{`serve --port={port} --host {host}`, "served: --port=PORT --host 127.0.0.1", "/"},
		{`serve 'port = {port}' "${HOME}" {base}x`, "served: port = PORT HOME /command/x", "/command/"},
		{"X=1\nserve \"$X\" {port}", "served: 1 PORT", "/"},
		{`serve '{ print }' {port}`, "served: { print } PORT", "/"},
		{"source ~/env.sh\nports=({port})\n[[ $X == 2 ]] && serve \"${ports[@]}\"", "served: PORT", "/"},
	} {
		j := builtinJob(t, CommandJob)
		j.Command = c.command
		j.Prepare = `echo "X=2" >~/env.sh`
		out := scripted(t, j, map[string]string{"serve": `echo "served: $*"`})
		m := regexp.MustCompile(`(?m)^tunctl: command will be at http://127\.0\.0\.1:(\d+)(\S*)$`).FindStringSubmatch(out)
		if m == nil || m[2] != c.page || !strings.Contains(out, strings.ReplaceAll(c.want, "PORT", m[1])) {
			t.Errorf("%s: got\n%s", c.command, out)
		}
	}
}

func TestACommandInAContainerWithoutBashIsRunBySh(t *testing.T) {
	j := builtinJob(t, CommandJob)
	j.Answers = map[string]string{"container": "/images/x.sif"}
	j.Command = `serve "$0" {port}`
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	out := scripted(t, j, map[string]string{
		"apptainer": `while [ "$1" != sh ]; do shift; done; shift
mkdir "$HOME/image" && ln -s ` + sh + ` "$(command -v serve)" "$HOME/image/" && PATH=$HOME/image exec sh "$@"`,
		"serve": `echo "served: $*"`,
	})
	wantAll(t, out, "served: sh ")
}

func TestPrepareRunsBeforeEveryServer(t *testing.T) {
	shows := map[string]string{
		"jupyter": `case $* in *--version*) echo 4.0.0; exit ;; esac; echo "served with $MINE, umask $(umask)"`,
		"show":    `echo "served with $MINE, umask $(umask)"`,
		"sleep":   `echo "served with $MINE, umask $(umask)"`,
	}
	for _, app := range []string{"jupyter", CommandJob, ShellApp} {
		j := builtinJob(t, app)
		j.Command = "show {port}"
		j.Prepare = "MINE=\"it's mine\"\nEND=1 # a word that ends nothing\nEND\nexport MINE\n"
		out := scripted(t, j, shows)
		wantAll(t, out, "served with it's mine, umask 0027")
	}
}

func TestPrepareMayBeAScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env.sh")
	if err := os.WriteFile(file, []byte("export MINE=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := builtinJob(t, CommandJob)
	j.Command, j.Prepare = "show {port}", file
	wantAll(t, scripted(t, j, map[string]string{"show": `echo "served with $MINE"`}), "served with 1")
	j.Prepare = "~/none.sh"
	wantAll(t, scripted(t, j, nil), "tunctl: there is no script HOME/none.sh: set prepare in the session")
}

func TestNothingIsServedWhenPrepareFails(t *testing.T) {
	j := builtinJob(t, CommandJob)
	j.Command, j.Prepare = "show {port}", "cd /no/such/folder 2>/dev/null"
	out := scripted(t, j, map[string]string{"show": "echo served"})
	wantAll(t, out, "tunctl: prepare ended with status 1, so nothing was started")
	wantNone(t, out, "served", "will be at")
}

func TestPrepareRunsInTheContainer(t *testing.T) {
	j := builtinJob(t, CommandJob)
	j.Answers = map[string]string{"container": "/images/x.sif"}
	j.Command, j.Prepare = "show {port}", "echo \"prepared in ${inside:-the job}\""
	out := scripted(t, j, map[string]string{
		"apptainer": `while [ "$1" != sh ]; do shift; done; inside="the container" exec "$@"`,
		"show":      "echo served",
	})
	wantAll(t, out, "prepared in the container", "served")
}

// containerPart is what a job may run in a container, where sh is any shell.
var containerPart = regexp.MustCompile(`(?s)\nserve=\$\(cat <<'END'\n(.*?)\nEND\n\)`)

func TestThePartThatMayRunInAContainerIsForAnyShell(t *testing.T) {
	dash, err := exec.LookPath("dash")
	if err != nil {
		t.Skip("no dash")
	}
	for _, app := range BuiltinJobs() {
		text, err := answered(builtinJob(t, app).Site, app).Script()
		if err != nil {
			t.Fatal(err)
		}
		m := containerPart.FindSubmatch(text)
		if m == nil && app != ShellApp && app != CommandJob {
			t.Errorf("%s has no such part", app)
		}
		if m == nil {
			continue
		}
		cmd := exec.CommandContext(t.Context(), dash, "-n")
		cmd.Stdin = strings.NewReader(string(m[1]))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", app, err, out)
		}
	}
}

func wantNone(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%q is in:\n%s", part, text)
		}
	}
}

func TestTheKeysOfABuiltinJobAreChecked(t *testing.T) {
	session := func(lines string) string { return "[session.s]\nhost = \"h\"\n" + lines + "\n" }
	for lines, want := range map[string]string{
		`submit = "builtin:command"`:                                                                    `has no command to run`,
		"submit = \"builtin:command\"\ncommand = \"vllm serve m\"":                                      `has no {port}`,
		"submit = \"builtin:command\"\ncommand = \"x {prot}\"":                                          `unknown placeholder {prot}`,
		"submit = \"builtin:command\"\ncommand = \"x {port} {folder}\"":                                 `unknown placeholder {folder}`,
		"submit = \"builtin:command\"\ncommand = \"\"":                                                  `"command" in [session.s] is empty`,
		"submit = \"builtin:command\"\ncommand = \"x\\u0007 {port}\"":                                   `without control characters`,
		"submit = \"builtin:jupyter\"\ncommand = \"x {port}\"":                                          `"command" works only with submit = "builtin:command"`,
		"submit = \"~/x.sh\"\nprepare = \"module load R\"":                                              `"prepare" works only with a builtin job`,
		"submit = \"builtin:command\"\ncommand = \"x {port}\"\nreach = \"login\"":                       `has no password, so it listens on the compute node itself only`,
		"submit = \"builtin:tensorboard\"\nreach = \"here\"":                                            `has no password, so it listens on the compute node itself only`,
		"submit = \"builtin:desktop\"\nreach = \"login\"\nprepare = \"\"\"\nmodule load vnc\nx\n\"\"\"": "",
		"submit = \"builtin:command\"\ncommand = '''awk '{ print }' ${HOME} {port} {base}'''":           "",
		"submit = \"builtin:desktop\"\napp = \"desktop\"":                                               "",
	} {
		_, err := Parse("config.toml", []byte(session(lines)))
		switch {
		case want == "" && err != nil, want != "" && err == nil:
			t.Errorf("%s\ngot %v, want %q", lines, err, want)
		case err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%s\ngot %v, want %q", lines, err, want)
		}
	}
}
