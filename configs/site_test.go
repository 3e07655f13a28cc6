package configs

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

func builtinSites(t *testing.T) Sites {
	t.Helper()
	sites, err := LoadSites("")
	if err != nil {
		t.Fatal(err)
	}
	return sites
}

// otherSchedulers are the sites with a scheduler that tunctl does not drive: it is left out,
// and recognised by its programs.
var otherSchedulers = []string{"dtu"}

func TestTheSitesThatComeWithTunctlAreWhole(t *testing.T) {
	sites := builtinSites(t)
	for _, want := range []string{"aspire2a", "cvl-uwa", "dfki", "fir", "m3", "narval", "nibi", "pegasus", "rorqual", "sdumont", "gridengine", "pbs", "slurm", "workstation"} {
		if _, err := sites.Find(want); err != nil {
			t.Errorf("Find(%q): %v", want, err)
		}
	}
	for _, s := range sites {
		known := slices.Contains(Schedulers(), s.Scheduler)
		if other := slices.Contains(otherSchedulers, s.Name); known == other || other && s.Scheduler != "" {
			t.Errorf("%s: scheduler %q", s.Name, s.Scheduler)
		}
		if len(s.Entrances) == 0 && s.Portal == "" && !s.Generic() {
			t.Errorf("%s has neither an entrance nor a portal", s.Name)
		}
		if len(s.Reach) == 0 || !s.Generic() && len(s.Help) == 0 {
			t.Errorf("%s: no reach or no help", s.Name)
		}
	}
	if !sites[len(sites)-1].Generic() || sites[0].Generic() {
		t.Error("the generic sites do not come last")
	}
}

func TestWhatIsNotKnownOfASiteIsMarkedAsSuch(t *testing.T) {
	pages := sitePages(t)
	for _, s := range builtinSites(t) {
		if s.Generic() {
			continue
		}
		unsure := map[string]bool{}
		for _, u := range s.Unsure {
			what, _, _ := strings.Cut(u, ":")
			unsure[what] = true
			if ownPages[s.Name] != "" && !strings.Contains(pages, strings.Join(strings.Fields(u), " ")) { // the other pages are made from the files
				t.Errorf("%s: no page of docs/sites says %q", s.Name, u)
			}
		}
		// No centre has looked over the amounts that its job asks for, a transfer node was
		// not tried, and where a login node leads is certain only where there is one way to
		// try.
		for what, doubtful := range map[string]bool{
			"defaults": len(s.Questions) > 0,
			"transfer": s.Transfer != "" && s.Transfer != noTransfer,
			"entrance": len(s.Entrances) == 0,
			"reach":    len(s.Reach) > 1 && s.Name != "cvl-uwa", // which is unsure of everything
		} {
			if doubtful && !unsure[what] {
				t.Errorf("%s: its %s is not marked as unsure", s.Name, what)
			}
		}
	}
}

// sitePages is the text of the pages about sites, as one line.
func sitePages(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../docs/sites/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var text strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	return strings.Join(strings.Fields(text.String()), " ")
}

// answered is a job of the site with an answer to everything that must have one.
func answered(s Site, app string) *Job {
	j := &Job{App: app, Name: "jupyter", Site: s, Answers: map[string]string{}, Command: commandExample}
	for _, q := range j.Questions() {
		if q.Required && q.Default == "" {
			j.Answers[q.Name] = map[QuestionKind]string{AskPath: "/scratch/p/alice"}[q.Kind]
			if j.Answers[q.Name] == "" {
				j.Answers[q.Name] = "debug"
			}
		}
	}
	return j
}

func TestEveryJobOfEverySiteIsAShellScriptWithTheSchedulersLinesFirst(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	for _, s := range builtinSites(t) {
		for _, app := range BuiltinJobs() {
			t.Run(s.Name+"/"+app, func(t *testing.T) {
				t.Parallel()
				text, err := answered(s, app).Script()
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), bash, "-n")
				cmd.Stdin = strings.NewReader(string(text))
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("bash -n: %v\n%s\n%s", err, out, text)
				}
				if s.Scheduler != "" {
					checkDirectives(t, s.Scheduler, string(text))
				}
			})
		}
	}
}

// TestShellcheckFindsNothingInAnyJobOfAnySite is a linter, which `make lint` runs. Scripts of
// sites that differ only in directives and answers are checked once.
func TestShellcheckFindsNothingInAnyJobOfAnySite(t *testing.T) {
	if os.Getenv("TUNCTL_SHELLCHECK") == "" {
		t.Skip("`make lint` runs it")
	}
	jobs, parts := map[string]string{}, map[string]string{} // the files of those that differ
	dir := t.TempDir()
	write := func(name, text string) (file string) {
		file = filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, s := range builtinSites(t) {
		for _, app := range BuiltinJobs() {
			if app != "jupyter" && !s.Generic() {
				continue // what sites add is the same in all jobs
			}
			text, err := answered(s, app).Script()
			if err != nil {
				t.Fatalf("%s, %s: %v", s.Name, app, err)
			}
			jobs[shellBody(string(text))] = write(s.Name+"-"+app+".sh", string(text))
			if m := containerPart.FindSubmatch(text); m != nil {
				parts[string(m[1])] = write(s.Name+"-"+app+"-container.sh", string(m[1])+"\n")
			}
		}
	}
	for _, args := range [][]string{
		append([]string{"--shell=bash"}, slices.Collect(maps.Values(jobs))...),
		append([]string{"--shell=dash", "--exclude=SC2154,SC2317"}, slices.Collect(maps.Values(parts))...),
	} {
		cmd := exec.CommandContext(t.Context(), "shellcheck", append(args, "--format=gcc", "--norc")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
}

var (
	commentLine = regexp.MustCompile(`(?m)^#[^!\n][^\n]*\n`)
	answerLine  = regexp.MustCompile(`(?m)^\t([a-z][a-z0-9_]*)='.*\n`)
)

// shellBody is what matters of a script to shellcheck: not its directives, and of the
// answers only the names of those that it uses.
func shellBody(text string) string {
	text = commentLine.ReplaceAllString(text, "")
	return answerLine.ReplaceAllStringFunc(text, func(line string) string {
		name := answerLine.FindStringSubmatch(line)[1]
		if strings.Contains(text, "$"+name) || strings.Contains(text, "${"+name) {
			return name + "\n"
		}
		return ""
	})
}

// checkDirectives looks at the lines that the scheduler reads: all before the
// first command, and none with a gap in it.
func checkDirectives(t *testing.T, scheduler, text string) {
	t.Helper()
	prefix := cmp.Or(dialectOf(scheduler).prefix, "#NONE ")
	var found []string
	commands := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, prefix) && commands:
			t.Errorf("after the first command: %q", line)
		case strings.HasPrefix(line, prefix):
			found = append(found, strings.TrimPrefix(line, prefix))
		case line != "" && !strings.HasPrefix(line, "#"):
			commands = true
		}
	}
	for _, d := range found {
		if !strings.HasPrefix(d, "-") || strings.Contains(d, "<no value>") || strings.HasSuffix(d, "=") {
			t.Errorf("directive %q", d)
		}
	}
	all := strings.Join(found, "\n")
	switch scheduler {
	case "slurm":
		wantAll(t, all, "--job-name=jupyter", "--output=%x.%j.log", "--time=0")
	case "pbs":
		wantAll(t, all, "-N jupyter", "-S /bin/bash", "-j oe", "-l walltime=0")
		if !strings.Contains(all, "-l select=1") && !strings.Contains(all, "-l ncpus=") {
			t.Errorf("the job asks for no node:\n%s", all)
		}
		wantAll(t, text, `exec >>"$HOME/.tunctl/logs/$PBS_JOBNAME.$PBS_JOBID.log" 2>&1`)
	case "gridengine":
		wantAll(t, all, "-N jupyter", "-S /bin/bash", "-cwd", "-j y", "-o $JOB_NAME.$JOB_ID.log", "-l h_rt=0")
	}
}

func wantAll(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

func TestSitesAreAskedForByTheirOwnRules(t *testing.T) {
	sites := builtinSites(t)
	for _, c := range []struct {
		site    string
		answers map[string]string
		want    []string
	}{
		{"narval", map[string]string{"account": "def-ann", "hours": "1.5", "gpus": "1"}, []string{"#SBATCH --account=def-ann", "--time=01:30:00", "--gres=gpu:a100:1", `for name in "$node"; do`, `virtualenv --no-download "$disk/env"`}},
		{"narval", map[string]string{"account": "def-ann", "gpus": "1", "gpu_type": "a100_3g.20gb"}, []string{"--gres=gpu:a100_3g.20gb:1"}},
		{"rorqual", map[string]string{"account": "def-ann", "gpus": "2"}, []string{"#SBATCH --account=def-ann", "--gres=gpu:h100:2"}},
		{"m3", map[string]string{"account": "ab12"}, []string{"--partition=desktop", "--qos=desktopq", "--gres=gpu:P4:1", "bind=127.0.0.1"}},
		{"cvl-uwa", map[string]string{}, []string{"--partition=desktop", "--mem=40G"}},
		{"sdumont", map[string]string{"folder": "/scratch/p/ann", "gpus": "2"}, []string{"--partition=sequana_gpu_shared", "--time=02:00:00", "--gpus=2", `private="$folder/.tunctl/job.$job"`}},
		{"dfki", map[string]string{"image": "/data/enroot/a.sqsh"}, []string{"--partition=batch", `--container-image="$image"`, "image='/data/enroot/a.sqsh'", "mounts='/data'"}},
		{"pegasus", map[string]string{"image": "/enroot/a.sqsh"}, []string{`--container-image="$image"`, "mounts='/netscratch,/ds'"}},
		{"aspire2a", map[string]string{}, []string{"#!/bin/bash -l", "#PBS -P personal", "#PBS -q normal", "ncpus=2:mem=16gb:ngpus=1", "-l walltime=01:00:00"}},
	} {
		s, err := sites.Find(c.site)
		if err != nil {
			t.Fatal(err)
		}
		text, err := (&Job{App: "jupyter", Name: "jupyter", Site: s, Answers: c.answers}).Script()
		if err != nil {
			t.Errorf("%s: %v", c.site, err)
			continue
		}
		wantAll(t, string(text), c.want...)
	}
}

func TestAnswersCannotLeaveTheirPlace(t *testing.T) {
	narval, err := builtinSites(t).Find("narval")
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"account": "x\n#SBATCH --uid=0", "hours": "2; reboot", "gpus": "$(id)", "memory": "8G --uid=0", "modules": "a `b`", "venv": "--help",
		"cpus": "-1", "nonsense": "1",
	} {
		j := answered(narval, "jupyter")
		j.Answers[name] = bad
		if text, err := j.Script(); err == nil {
			t.Errorf("%s = %q was taken:\n%s", name, bad, text)
		}
	}
	j := answered(narval, "jupyter")
	j.Answers["venv"] = "/home/o'brien/$(touch x)/v e"
	text, err := j.Script()
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, string(text), `venv='/home/o'\''brien/$(touch x)/v e'`)
}

func TestAnAnswerOutOfBoundsIsRefusedWithItsBounds(t *testing.T) {
	for _, c := range []struct {
		q            Question
		answer, want string
	}{
		{Question{Kind: AskHours, Min: 1}, "0.5", "a number of hours, at least 1"},
		{Question{Kind: AskHours, Min: 1}, "0", "a number of hours, at least 1"},
		{Question{Kind: AskHours, Min: 1}, "1", ""},
		{Question{Kind: AskHours}, "0", "such as 2 or 0.5"},
		{Question{Kind: AskHours}, "NaN", "such as 2 or 0.5"},
		{Question{Kind: AskNumber, Min: 2}, "1", "a whole number, at least 2"},
		{Question{Kind: AskNumber, Min: 2}, "2", ""},
		{Question{Kind: AskHours, Min: 1, Max: 168}, "169", "a number of hours, at least 1, at most 168"},
		{Question{Kind: AskHours, Min: 1, Max: 168}, "168", ""},
		{Question{Kind: AskMemory}, "16", "with its unit, such as 8G"},
		{Question{Kind: AskMemory}, "16GB", ""},
	} {
		_, err := c.q.Check(c.answer)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v of %q: %v", c.q, c.answer, err)
		}
	}
	_, err := parseSite("s.toml", "s", []byte("title = \"x\"\n[question.a]\nask = \"a?\"\nmin = 1\n"), nil)
	if err == nil || !strings.Contains(err.Error(), "is not a number") {
		t.Errorf("a word with a least one: %v", err)
	}
	_, err = parseSite("s.toml", "s", []byte("title = \"x\"\n[question.a]\nask = \"a?\"\nkind = \"hours\"\nmin = \"soon\"\n"), nil)
	if err == nil || !strings.Contains(err.Error(), `"min" in [question.a] must be a number`) {
		t.Errorf("a least that is none: %v", err)
	}
}

func TestAMissingAnswerIsNamedWithTheWayToGiveIt(t *testing.T) {
	narval, err := builtinSites(t).Find("narval")
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&Job{App: "jupyter", Name: "j", Site: narval}).Script()
	e, ok := err.(*api.Error) //nolint:errorlint // the outermost one carries the hint
	if !ok || e.Code != api.CodeConfig || !strings.Contains(e.Message, `"account"`) || !strings.Contains(e.Hint, "with = { account") {
		t.Errorf("%#v", err)
	}
}

func TestAPersonsOwnSiteStandsBesideOursAndTakesTheirPlace(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("lab.toml", "like = \"slurm\"\ntitle = \"our lab\"\n[entrance.main]\nhost = \"lab.example.org\"\n[question.hours]\nask = \"How long?\"\nkind = \"hours\"\ndefault = 8\n")
	write("narval.toml", "title = \"mine\"\nscheduler = \"slurm\"\n")
	write("broken.toml", "title = \"x\"\nsheduler = \"slurm\"\n[entrances.a]\nhost = \"b\"\n")
	write("loop.toml", "title = \"x\"\nlike = \"loop\"\n")
	sites, err := LoadSites(dir)
	lab, findErr := sites.Find("lab")
	if findErr != nil {
		t.Fatal(findErr)
	}
	if lab.Path == "" || lab.Scheduler != "slurm" || lab.Entrances[0].Host != "lab.example.org" || len(lab.Job.Directives) == 0 {
		t.Errorf("lab: %+v", lab)
	}
	if i := slices.IndexFunc(lab.Questions, func(q Question) bool { return q.Name == "hours" }); lab.Questions[i].Default != "8" {
		t.Errorf("the site's own question is not taken: %+v", lab.Questions[i])
	}
	if narval, _ := sites.Find("narval"); narval.Title != "mine" {
		t.Errorf("narval is %q", narval.Title)
	}
	if err == nil {
		t.Fatal("the broken ones are not reported")
	}
	for _, want := range []string{`broken.toml:2:1: unknown key "sheduler"`, `did you mean "scheduler"?`, "did you mean [entrance.a]?", `site "loop" cannot be like itself`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestATemplateThatAsksForNothingKnownIsRefusedWhenRead(t *testing.T) {
	_, err := parseSite("x.toml", "x", []byte("title = \"x\"\n[job]\ndirectives = [\"--account={{.acount}}\"]\n"), nil)
	if err == nil || !strings.Contains(err.Error(), "acount") {
		t.Errorf("%v", err)
	}
}

func TestAnUnknownSiteIsAnsweredWithTheNearest(t *testing.T) {
	_, err := builtinSites(t).Find("narwal")
	e, ok := err.(*api.Error) //nolint:errorlint // see above
	if !ok || !strings.Contains(e.Hint, `"narval"`) {
		t.Errorf("%#v", err)
	}
}

func TestFilesGoThroughTheTransferNodeThatTheConfigOrTheSiteNames(t *testing.T) {
	sites := builtinSites(t)
	const m3 = "m3-dtn.massive.org.au"
	for _, tc := range []struct {
		host Host
		want string
	}{
		{Host{}, ""},
		{Host{Site: "m3"}, m3},
		{Host{Site: "cvl-uwa"}, ""}, // it is like M3, but this is another place
		{Host{Site: "narval"}, ""},
		{Host{Site: "no such site"}, ""},
		{Host{Site: "m3", Transfer: noTransfer}, ""},
		{Host{Site: "m3", Transfer: "alice@dtn"}, "alice@dtn"},
		{Host{Transfer: "alice@dtn"}, "alice@dtn"},
	} {
		if got := sites.TransferNode(tc.host); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.host, got, tc.want)
		}
	}
}

const strictSite = `title = "Strict"
country = "Finland"
verified = false
scheduler = "slurm"
dial = ["{node}-nmn", "{node}.hsn.example.org", "{address}"]
require = ["--account=PROJECT", "-l filesystems=home:eagle", "-G GROUP", "--exclusive"]
private = "/work/{group}/{user}/.tunctl"
before = "Connect to the VPN."

[limits]
sessions = 1
login_spacing = "5m"
retry = "1m"
refusals = 1

[certificate]
lifetime = "24h"
renew = "step ssh login MAIL"
file = "~/.ssh/strict-cert.pub"

[entrance.main]
host = "login.example.org"
port = 2222
jump = "gate.example.org"
aliases = ["login*.int.example.org", "old.example.org"]

[queue.gpu]
gpus = 4
gpu_types = ["a100", "v100"]
`

func parsed(t *testing.T, text string, base ...Site) (Site, error) {
	t.Helper()
	return parseSite("s.toml", "s", []byte(text), func(name string) (Site, bool) {
		for _, s := range base {
			if s.Name == name {
				return s, true
			}
		}
		return Site{}, false
	})
}

func TestASiteSaysHowItIsReachedAndWhatItForbids(t *testing.T) {
	s, err := parsed(t, strictSite)
	if err != nil {
		t.Fatal(err)
	}
	if s.Country != "Finland" || s.Verified || len(s.Dial) != 3 || len(s.Require) != 4 || s.Private == "" {
		t.Errorf("%+v", s)
	}
	if want := (SiteLimits{Sessions: 1, LoginSpacing: Period(5 * time.Minute), Retry: Period(time.Minute), Refusals: 1}); s.Limits != want {
		t.Errorf("limits %+v", s.Limits)
	}
	if c := s.Certificate; c.Lifetime.Words() != "24 h" || c.Renew == "" || c.File == "" {
		t.Errorf("certificate %+v", c)
	}
	e, ok := s.EntranceAt("LOGIN3.int.example.org")
	if !ok || e.Port != 2222 || e.Jump != "gate.example.org" {
		t.Errorf("entrance %+v, %v", e, ok)
	}
	if _, ok := s.EntranceAt("example.org"); ok {
		t.Error("another host is taken for an entrance")
	}
	if got := s.ProbeAt("old.example.org"); got != "old.example.org:2222" {
		t.Errorf("the probe is %q", got)
	}
}

func TestASiteThatIsLikeAnotherIsAsSureAndAsStrict(t *testing.T) {
	base, err := parsed(t, strictSite)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parsed(t, "like = \"base\"\n[limits]\nrefusals = 2\n", Site{Name: "base", Title: base.Title, Limits: base.Limits, Dial: base.Dial})
	if err != nil || s.Verified || s.Limits.Sessions != 1 || s.Limits.Refusals != 2 || len(s.Dial) != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := parsed(t, "title = \"x\"\n"); err != nil || !s.Verified {
		t.Errorf("a site that says nothing is not verified: %v", err)
	}
}

func TestWrongKeysOfAccessAreRefusedWithAnExample(t *testing.T) {
	for text, want := range map[string]string{
		`dial = ["nodes.example.org"]`:                        "neither {address} nor a host name with {node}",
		`dial = ["{node} x"]`:                                 "neither {address}",
		`require = ["account"]`:                               "is not an option of a job",
		`require = ["-l a=1 -l b=2"]`:                         "is not an option of a job",
		`private = "/work/{project}/.tunctl"`:                 "may contain {user} and {group}",
		`private = "/work/$(id)/.tunctl"`:                     "may contain {user} and {group}",
		`private = "$SCRATCH-2/.tunctl"`:                      "starts with /, ~/ or a variable",
		`private = "/work/../.tunctl"`:                        "starts with /",
		`private = "/work/alice"`:                             "ends in /.tunctl",
		`limits = 1`:                                          "must be a table",
		"[limits]\nsessions = 0":                              `"sessions" must be a number from 1 to 1000`,
		"[limits]\nlogin_spacing = \"soon\"":                  `is not a time`,
		"[limits]\nmax = 1":                                   `unknown key "max"`,
		"[certificate]\nlifetime = \"2s\"":                    "too short: the least is 1 min",
		"[certificate]\nfile = \"~/.ssh/id\"":                 "does not end in -cert.pub",
		"[entrance.a]\nhost = \"b\"\nport = 70000":            "must be a number from 1 to 65535",
		"[entrance.a]\nhost=\"b\"\naliases=[\"-x\"]":          "is not a host name",
		"[entrance.a]\nhost=\"b\"\nhost_keys=[\"MD5:0b:ef\"]": "is not a fingerprint",
		"[entrance.a]\nhost=\"b\"\njump=\"-x\"":               "is not a valid ssh host",
		"[queue.a]\ngpu_types = [\"a b\"]":                    "is not one word",
	} {
		if _, err := parsed(t, "title = \"x\"\n"+text+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
