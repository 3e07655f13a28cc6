package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/doctor"
	"tunctl/internal/home"
	"tunctl/internal/show"
	"tunctl/internal/term"
	"tunctl/internal/words"
	"tunctl/tunnel"
	"tunctl/tunnel/sshconfig"
)

func doctorCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "diagnose problems and suggest fixes",
		ArgsUsage: "[HOST|SESSION]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "list the checks that are OK, too"},
			&cli.StringFlag{Name: "bundle", Usage: "write a zip `FILE` for a bug report"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: invokeInterruptible(t, atMost(1, "one host or session", diagnose)),
	}
}

func diagnose(ctx context.Context, inv *invocation) error {
	cfg := readConfig(inv.paths) // the config's own check says why it cannot be read
	checks := []api.Check{}
	list := &checkList{term: inv.Terminal, layout: term.LayoutFor(inv.Out), said: map[string]bool{}, hosts: cfg.HostNames()}
	doctor.Examine(ctx, newEnvironment(inv, cfg), subjects(cfg, inv.Args().First()), func(x api.Check) {
		checks = append(checks, x)
		if !inv.Bool("json") && (inv.Bool("all") || x.Result != api.CheckOK && !list.repeats(x)) {
			list.check(x)
		}
	})
	inv.Draw("")
	if err := list.end(inv, checks); err != nil {
		return err
	}
	if file := inv.String("bundle"); file != "" {
		if err := writeBundle(ctx, inv, cfg, checks, file); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(checks, func(x api.Check) bool { return x.Result == api.CheckBad }) {
		return exitError(exitFailed)
	}
	return nil
}

// subjects are what to check: the session of that name and its host, or the host; without a
// name, everything in the config and in the agent.
func subjects(cfg *configs.Config, name string) func(api.Status) []doctor.Subject {
	return func(st api.Status) []doctor.Subject {
		var list []doctor.Subject
		for _, s := range cfg.Sessions {
			list = append(list, doctor.Subject{Host: s.Host, Session: s.Name})
		}
		for _, s := range st.Sessions {
			if _, listed := cfg.Session(s.Name); !listed && isNotDown(s) {
				list = append(list, doctor.Subject{Host: s.Host, Session: s.Name})
			}
		}
		if i := slices.IndexFunc(list, func(s doctor.Subject) bool { return s.Session == name }); i >= 0 {
			return list[i : i+1]
		}
		if name != "" {
			return []doctor.Subject{{Host: name}}
		}
		for _, h := range cfg.Hosts {
			list = append(list, doctor.Subject{Host: h.Name})
		}
		return list
	}
}

// newEnvironment gives the checks access to this machine and the agent.
func newEnvironment(inv *invocation, cfg *configs.Config) doctor.Environment {
	self, _ := os.Executable()
	p := inv.paths
	read := resolver(p, cfg)
	return doctor.Environment{
		Program: self, Version: version(),
		Config: func() (string, error) { return configSummary(p) },
		State:  p.State, StateProblem: func() (string, error) { return state.Problem(p.StateFile()) },
		Status:  func(ctx context.Context) (api.Status, error) { return liveStatus(ctx, inv.client) },
		Resolve: func(ctx context.Context, host string) (api.Host, error) { return readHost(ctx, read, host) },
		Preflight: func(ctx context.Context, host string) (doctor.PreflightResult, error) {
			s, err := read.Settings(ctx, host)
			if err != nil {
				return doctor.PreflightResult{}, err
			}
			seen, err := tunnel.Preflight(ctx, s)
			return doctor.PreflightResult(seen), err
		},
		Names:       append(knownHosts(cfg), configuredSessions(cfg)...),
		Lookup:      net.DefaultResolver.LookupHost,
		AgentSocket: os.Getenv("SSH_AUTH_SOCK"),
		Advice:      func(ctx context.Context, host string) string { return siteAdvice(ctx, p, cfg, host, read) },
		Remote:      inv.client.Check,
	}
}

func configSummary(p home.Paths) (string, error) {
	cfg, err := loadConfig(p)
	if err != nil {
		return "", err
	}
	return p.Config + ": " + words.Count(len(cfg.Sessions), "session"), nil
}

// siteAdvice says what the host's site requires before SSH works, and whether it is met.
func siteAdvice(ctx context.Context, p home.Paths, cfg *configs.Config, host string, read sshconfig.Resolver) string {
	name := cfg.Host(host).Site
	site, err := readSites(p).Find(name)
	if name == "" || err != nil {
		return ""
	}
	settings, _ := read.Settings(ctx, host) // without them, the site's own probe decides
	return site.AccessHint(settings.Hostname, func(address string) bool { return tunnel.Reachable(ctx, address) })
}

// withSiteAdvice adds to the error of a host that cannot be reached what its site requires.
func withSiteAdvice(ctx context.Context, p home.Paths, host string, err error) error {
	if !api.HasCode(err, api.CodeUnreachable) {
		return err
	}
	cfg := readConfig(p)
	if advice := siteAdvice(ctx, p, cfg, host, resolver(p, cfg)); advice != "" {
		return api.ReplaceHint(err, "%s", advice)
	}
	return err
}

// checkList prints checks as they come, under their subjects.
type checkList struct {
	term   *term.Terminal
	layout term.Layout
	about  string
	begun  bool
	said   map[string]bool // problems, without what they are about
	hosts  []string
	same   []string // what has only such problems that were said before
}

// checkName is the width of a check's name.
const checkName = 11

// end prints all checks as JSON, or how many of them are not listed.
func (l *checkList) end(inv *invocation, checks []api.Check) error {
	if inv.Bool("json") {
		return inv.PrintIndentedJSON(checks)
	}
	problems := 0
	for _, x := range checks {
		if x.Result != api.CheckOK {
			problems++
		}
	}
	if len(l.same) > 0 {
		l.print("\nthe same problem: "+strings.Join(l.same, ", "), 2)
	}
	var err error
	switch ok := words.Count(len(checks)-problems, "check"); {
	case inv.Bool("all"):
	case problems == 0:
		_, err = fmt.Fprintf(inv.Out, "%s no problems: %s OK (--all lists them)\n", l.layout.Paint(term.Green, "✓"), ok)
	default:
		_, err = fmt.Fprintf(inv.Out, "\n%s OK (--all lists them)\n", ok)
	}
	return err
}

// repeats reports whether a problem was said of something else: a lost host is one of all its sessions.
func (l *checkList) repeats(x api.Check) bool {
	problem := x.Name + "\n" + x.Text + "\n"
	if slices.Contains(l.hosts, x.About) {
		problem += x.Fix
	} else {
		problem += show.AnySession(x.Fix, x.About)
	}
	if again := l.said[problem]; !again || l.about == x.About {
		l.said[problem] = true
		return again
	}
	if !slices.Contains(l.same, x.About) {
		l.same = append(l.same, x.About)
	}
	return true
}

func (l *checkList) check(x api.Check) {
	l.term.Draw("")
	if l.begun && x.About != l.about {
		fmt.Fprintln(l.term.Out)
	}
	if !l.begun || x.About != l.about {
		fmt.Fprintln(l.term.Out, l.layout.Paint(term.Bold, cmp.Or(x.About, "this machine")))
		l.begun, l.about = true, x.About
	}
	mark := map[api.CheckResult]string{
		api.CheckOK: l.layout.Paint(term.Green, "✓"), api.CheckBad: l.layout.Paint(term.Red, "✗"), api.CheckUnknown: l.layout.Paint(term.Yellow, "?"),
	}[x.Result]
	text := strings.ReplaceAll(strings.TrimSpace(x.Text), "\n", "\n"+strings.Repeat(" ", checkName+3))
	l.print(fmt.Sprintf("%s %s %s", mark, term.Pad(x.Name, checkName), text), checkName+3)
	if x.Fix != "" && x.Result != api.CheckOK {
		l.print(fmt.Sprintf("  %s → %s", term.Pad("", checkName), x.Fix), checkName+5)
	}
	if term.IsTerminal(l.term.Out) { // else another program may write to the same line, such as head
		l.term.Draw("checking…")
	}
}

// print writes a text, wrapped to the terminal.
func (l *checkList) print(text string, indent int) {
	for line := range strings.SplitSeq(text, "\n") {
		lines := []string{line}
		if l.layout.Width > 0 {
			lines = term.Wrap(line, l.layout.Width, indent)
		}
		fmt.Fprintln(l.term.Out, strings.Join(lines, "\n"))
	}
}

// writeBundle writes the files that a bug report needs, and lists them.
func writeBundle(ctx context.Context, inv *invocation, cfg *configs.Config, checks []api.Check, path string) error {
	st, stErr := inv.client.Status(ctx)
	runs, runsErr := state.NewHistory(inv.paths.History()).Runs()
	items := []doctor.Item{
		{Name: "about.txt", Text: fmt.Sprintf("tunctl %s\n%s/%s, %s\n", version(), runtime.GOOS, runtime.GOARCH, runtime.Version())},
		bundleValue("checks.json", checks, nil),
		bundleValue("status.json", st.WithoutLogins(), stErr),
		bundleValue("history.json", runs, runsErr),
		bundleFile("config.toml", inv.paths.Config),
		bundleFile("agent.log", inv.paths.Log()),
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return api.Errorf(api.CodeUsage, "cannot write the bundle: %w", err).
			WithHint("name a file that does not exist yet")
	}
	packed, err := doctor.WriteBundle(f, items, scrubber(ctx, inv.paths, cfg, st, runs), time.Now())
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot write the bundle: %w", err)
	}
	inv.Say("\n%s contains, without tokens, passwords, user names and accounts:", path)
	for _, item := range packed {
		inv.Say("  %s  %s", term.Pad(item.Name, 14), words.Bytes(int64(len(item.Text))))
	}
	inv.Say("check it before you send it: `unzip -p %s | less`", path)
	return nil
}

// bundleFile is a file, or why it cannot be read.
func bundleFile(name, path string) doctor.Item {
	text, err := os.ReadFile(path)
	return bundleText(name, text, err)
}

// bundleValue is a value, or why there is none.
func bundleValue(name string, v any, err error) doctor.Item {
	var text []byte
	if err == nil {
		text, err = json.MarshalIndent(v, "", "  ")
	}
	return bundleText(name, append(text, '\n'), err)
}

func bundleText(name string, text []byte, err error) doctor.Item {
	if err != nil {
		text = fmt.Appendf(nil, "(%v)\n", err)
	}
	return doctor.Item{Name: name, Text: string(text)}
}

// scrubber replaces the names of the user, here and on each host, and of accounts.
func scrubber(ctx context.Context, p home.Paths, cfg *configs.Config, st api.Status, runs []api.Run) doctor.Scrubber {
	names := map[string]string{}
	if u, err := user.Current(); err == nil {
		login := u.Username[strings.LastIndexByte(u.Username, '\\')+1:]
		names[login], names[u.Username], names[u.Name] = "user", "user", "user"
		names[u.HomeDir] = "~"
	}
	if dir, err := os.UserHomeDir(); err == nil {
		names[filepath.Clean(dir)] = "~"
	}
	if name, err := os.Hostname(); err == nil {
		names[name] = "this-machine"
	}
	read := resolver(p, cfg)
	for _, host := range cfg.HostNames() {
		if s, err := read.Settings(ctx, host); err == nil {
			names[s.User] = "user"
		}
	}
	for _, h := range st.Hosts { // also those that the config does not have
		names[h.User] = "user"
	}
	for _, account := range accounts(cfg, st, runs) {
		names[account] = "account"
	}
	delete(names, "")
	delete(names, "/")
	return doctor.NewScrubber(names)
}

// accounts are those that the user's jobs are or were charged to, as far as tunctl was
// told. A job's account may be anywhere, such as in the paths of its files.
func accounts(cfg *configs.Config, st api.Status, runs []api.Run) []string {
	var all []string
	chosen := func(with map[string]string) { all = append(all, with["account"], with["project"]) }
	for _, s := range cfg.Sessions {
		chosen(s.With)
		all = append(all, doctor.Accounts(s.Args)...)
	}
	for _, s := range st.Sessions {
		chosen(s.With)
		for _, with := range s.Recent {
			chosen(with)
		}
	}
	for _, r := range runs {
		chosen(r.With)
	}
	return all
}
