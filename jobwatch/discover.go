package jobwatch

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch/plain"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

//go:embed discover.sh
var discoverFunctions string

// softwareParts looks for Jupyter. With the parts of a scheduler, all that is printed is less
// than a megabyte.
const softwareParts = `part environments 7 100000 environments
part path 2 2000 on_path
part scripts 5 100000 scripts
part modules 6 50000 module_names
`

// answerTime is how long before Limits.Discover the script itself ends, so that what was
// found so far arrives.
const answerTime = 4 * time.Second

// Discover finds out what the host has for a first session: one script on the login node, all
// of whose parts are optional and limited in time and size.
func (w *Watcher) Discover(ctx context.Context) (api.Look, error) {
	if err := w.host.turn.Lock(ctx); err != nil {
		return api.Look{}, err
	}
	defer w.host.turn.Unlock()
	return w.host.discover(ctx, true)
}

// Free is what the user may use now. An answer is kept for Limits.Query.
func (w *Watcher) Free(ctx context.Context) (api.Free, error) {
	if err := w.host.turn.Lock(ctx); err != nil {
		return api.Free{}, err
	}
	defer w.host.turn.Unlock()
	if known, fresh := w.KnownFree(); fresh {
		return known, nil
	}
	look, err := w.host.discover(ctx, false)
	if err != nil {
		return api.Free{}, err
	}
	if len(look.Partitions) == 0 && look.Cluster == (api.PartitionUsage{}) {
		if look.Scheduler == plain.Kind.Name {
			return api.Free{}, api.Errorf(api.CodeNoScheduler, "%s has no scheduler, so nobody counts what is free there", w.host.Host)
		}
		return api.Free{}, fmt.Errorf("%w: it names no queue that you may use", remote.ErrNoAnswer)
	}
	soonestFirst(look.Partitions)
	free := api.Free{At: time.Now(), Partitions: look.Partitions, Cluster: look.Cluster, Problems: look.Problems}
	w.free.Store(&free)
	return free, nil
}

// KnownFree is the last answer of Free, and whether it may still be used.
func (w *Watcher) KnownFree() (free api.Free, fresh bool) {
	if known := w.free.Load(); known != nil {
		return *known, time.Since(known.At) < w.host.Limits.Query
	}
	return free, false
}

// soonestFirst puts first what probably starts soonest: where something is free, then where fewer jobs
// wait.
func soonestFirst(list []api.Partition) {
	full := func(p api.Partition) bool { return p.GPUOnly && p.FreeGPUs == 0 || p.CPUs > 0 && p.FreeCPUs == 0 }
	slices.SortStableFunc(list, func(a, b api.Partition) int {
		return cmp.Or(sched.TrueFirst(!full(a), !full(b)), cmp.Compare(a.Waiting, b.Waiting))
	})
}

// discover runs a script. The caller has the turn.
func (h *host) discover(ctx context.Context, software bool) (api.Look, error) {
	mark := remote.NewMark()
	sh := &remote.Shell{Runner: h.sh.Runner, Limit: h.Limits.Discover, Private: h.sh.Private}
	res, err := sh.Login(ctx, discoverScript(mark, h.Scheduler, h.Limits.Discover-answerTime, software))
	if err != nil {
		return api.Look{}, err
	}
	look := readDiscovery(mark, string(res.Stdout))
	return look, unsupportedError(h.Host, look.Scheduler)
}

// discoverScript is the whole script, which looks for software, or else for how many jobs wait. It ends within limit.
// Which scheduler the host has is found out, unless the config says it.
func discoverScript(mark, scheduler string, limit time.Duration, software bool) string {
	parts, others := "", softwareParts
	for _, k := range schedulerKinds {
		text := k.Discover
		if !software {
			text, others = text+k.Waiting, ""
		}
		if text != "" {
			parts += k.Name + ")\n" + text + ";;\n"
		}
	}
	return fmt.Sprintf("exec 2>/dev/null\nexport LC_ALL=C TZ=UTC0\nmark=%s\nend=$(($(date +%%s) + %d))\nuser=$(id -un)\n", posixsh.Quote(mark), int(limit.Seconds())) +
		discoverFunctions + "find_account() {\n" + accountScript() + "\n}\nscheduler=" + posixsh.Quote(scheduler) + `
if [ -z "$scheduler" ]; then
	scheduler=$(limit 12 find_account | head -n 1)
	` + posixsh.ReadSetup + `
fi
printf '\n%s person\n%s\n%s\n%s\n%s\n' "$mark" "$scheduler" "$user" "$HOME" "$(id -Gn)"
case $scheduler in
` + parts + "esac\n" + others
}

// partNames are the parts in words, for those that took too long.
var partNames = map[string]string{
	"accounts": "your accounts", "partitions": "the partitions", "nodes": "which nodes are free", "queues": "the queues", "waiting": "how many jobs wait",
	"environments": "environments in your home folder", "scripts": "job scripts in your home folder", "modules": "the modules",
}

func readDiscovery(mark, out string) api.Look {
	a := sched.Discovery{Parts: map[string]string{}}
	look := api.Look{Accounts: []api.Account{}, Partitions: []api.Partition{}, Environments: []api.Environment{}, Scripts: []api.JobScript{}, Serving: []api.Candidate{}}
	last := ""
	for _, text := range strings.Split(out, "\n"+mark+" ")[1:] { // from the first heading on
		name, text, _ := strings.Cut(text, "\n")
		if name != "late" {
			last = name
			a.Parts[name] = text
		} else if words := partNames[last]; words != "" {
			look.Problems = append(look.Problems, words)
		}
	}
	person := append(strings.Split(a.Parts["person"], "\n"), "", "", "", "")
	look.Scheduler, look.User, look.Home = sched.PlainWord(person[0]), sched.PlainWord(person[1]), plainPath(person[2])
	a.Login, a.Groups = person[1], strings.Fields(person[3])
	kind := kindNamed(look.Scheduler)
	if kind != nil {
		kind.New().ReadDiscovery(&a, &look)
	}
	look.Environments = append(look.Environments, readEnvironments(&a)...)
	look.Scripts = append(look.Scripts, readScripts(&a, kind)...)
	if len(look.Accounts) == 0 {
		look.Accounts = append(look.Accounts, accountsOf(look.Scripts)...)
	}
	sortPartitions(look.Partitions)
	return look
}

// accountsOf are the accounts in job scripts: where no command lists them, those that the
// user has used.
func accountsOf(scripts []api.JobScript) []api.Account {
	var list []api.Account
	for _, s := range scripts {
		if s.Account != "" && !slices.ContainsFunc(list, func(a api.Account) bool { return a.Name == s.Account }) {
			list = append(list, api.Account{Name: s.Account, Source: s.Path})
		}
	}
	return list
}

// sortPartitions puts the default first, then those where something is free, then those
// with the longer jobs.
func sortPartitions(list []api.Partition) {
	limit := func(p api.Partition) int64 {
		if p.LimitSeconds == 0 {
			return -1 << 62
		}
		return -p.LimitSeconds
	}
	slices.SortStableFunc(list, func(a, b api.Partition) int {
		return cmp.Or(sched.TrueFirst(a.Default, b.Default), sched.TrueFirst(a.CPUs == 0 || a.FreeCPUs > 0, b.CPUs == 0 || b.FreeCPUs > 0), cmp.Compare(limit(a), limit(b)))
	})
}

// plainPath is a path that the host printed, or "" if it has odd characters.
func plainPath(text string) string {
	if !strings.HasPrefix(text, "/") || api.Sanitize(text) != text || strings.ContainsAny(text, "\n\t") || len(text) > 1000 {
		return ""
	}
	return path.Clean(text)
}

// metadataName matches the folder with the metadata of a Python package:
// jupyterlab-4.2.5.dist-info, notebook-6.4.12.egg-info, notebook-6.0.3-py3.8.egg-info.
var metadataName = regexp.MustCompile(`^[a-z_]+-([0-9][A-Za-z0-9.+!]*)(-py[0-9.]+)?\.(dist|egg)-info$`)

func readEnvironments(a *sched.Discovery) []api.Environment {
	var list []api.Environment
	seen := map[string]bool{}
	for _, line := range append(a.Lines("environments"), a.Lines("path")...) {
		f := append(strings.Split(line, "\t"), "", "", "")
		e := api.Environment{Kind: api.EnvironmentKind(sched.PlainWord(f[0])), Path: plainPath(f[1]), App: sched.PlainWord(f[2]), Source: "your home folder"}
		if m := metadataName.FindStringSubmatch(f[3]); m != nil {
			e.Version = m[1]
		}
		switch {
		case e.Path == "" || seen[e.Path]:
			continue
		case e.Kind == api.EnvironmentPath:
			e.Source = "the PATH of your login shell"
		case e.Kind == api.EnvironmentConda:
			e.Source = "your conda environments"
		case e.Kind != api.EnvironmentVenv && e.Kind != api.EnvironmentContainer:
			continue
		}
		seen[e.Path] = true
		list = append(list, e)
	}
	for _, line := range a.Lines("modules") {
		// jupyterlab/4.2.5(default), jupyter/1.0 <L>
		name, _, _ := strings.Cut(strings.TrimSpace(line), "(")
		name, _, _ = strings.Cut(name, " ")
		name = sched.PlainWord(strings.TrimRight(name, "/"))
		if !strings.Contains(strings.ToLower(name), "jupyter") || strings.HasSuffix(name, ":") || seen[name] {
			continue
		}
		seen[name] = true
		_, version, _ := strings.Cut(name, "/")
		list = append(list, api.Environment{Kind: api.EnvironmentModule, Path: name, Version: version, Source: "module avail"})
	}
	slices.SortStableFunc(list, func(a, b api.Environment) int {
		return cmp.Or(environmentRank(a)-environmentRank(b), -compareVersions(a.Version, b.Version))
	})
	return list
}

// environmentRank orders environments: the user's own first, JupyterLab before older servers,
// and images last, whose content is not known.
func environmentRank(e api.Environment) int {
	rank := map[api.EnvironmentKind]int{api.EnvironmentPath: 2, api.EnvironmentModule: 3, api.EnvironmentContainer: 5}[e.Kind]
	if rank == 0 && e.App != "jupyterlab" {
		return 1
	}
	if e.Kind == api.EnvironmentContainer && strings.Contains(strings.ToLower(path.Base(e.Path)), "jupyter") {
		return 4
	}
	return rank
}

// compareVersions compares the numbers in two versions.
func compareVersions(a, b string) int {
	numbers := func(v string) []string {
		return strings.FieldsFunc(v, func(r rune) bool { return r < '0' || r > '9' })
	}
	return slices.CompareFunc(numbers(a), numbers(b), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
}

// readScripts reads the scripts with directives of the host's scheduler.
func readScripts(a *sched.Discovery, kind *sched.Kind) []api.JobScript {
	if kind == nil || kind.Directives.Prefix == "" {
		return nil
	}
	syntax := &kind.Directives
	var list []api.JobScript
	for text := range strings.SplitSeq("\n"+a.Parts["scripts"], "\nscript\t") {
		file, lines, _ := strings.Cut(text, "\n")
		words := syntax.Words(lines)
		file = plainPath(file)
		if file == "" || len(words) == 0 {
			continue
		}
		s := api.JobScript{Path: file}
		for _, o := range syntax.Options(words) {
			switch o.Name {
			case kind.JobName:
				s.Job = sched.PlainWord(o.Value)
			case "account", "A", "P":
				s.Account = sched.PlainWord(o.Value)
			}
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b api.JobScript) int { // those nearest to home first
		return cmp.Or(strings.Count(a.Path, "/")-strings.Count(b.Path, "/"), len(a.Path)-len(b.Path), strings.Compare(a.Path, b.Path))
	})
	return list
}
