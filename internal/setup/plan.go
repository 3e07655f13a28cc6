package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"tunctl/configs"
	"tunctl/internal/client"
	"tunctl/internal/lists"
	"tunctl/internal/words"
)

// plan is what `tunctl init` adds to the config.
type plan struct {
	job        configs.Job // the site's, of an app and with the answers
	host       string      // the [host.NAME]
	configured string      // its ssh in the config; "": the config does not have the host
	ssh        string
	session    string
	changes    bool // the config has the session, and its answers change
	jobName    string
	submit     string   // a job script of the user's; "" for a builtin job
	adopts     bool     // the session uses jobs of that name that the user starts
	workdir    string   // where to submit from
	args       []string // for the scheduler
	siteFound  bool     // the site is that of the scheduler, which is found again
	ownMachine bool     // the user has said that the host has no scheduler
	install    string   // the folder where Jupyter is to be installed first
	loggedIn   bool
}

// ownsJob reports whether the job is of the user's own making.
func (p plan) ownsJob() bool { return p.submit != "" || p.adopts }

var (
	notInName   = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
	plainName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*$`)
	capitalWord = regexp.MustCompile(`\b[A-Z]{2,}\b`)
	plainNumber = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)
)

// hostName is the host's name in the config: that of its site, or that of its entrance if the
// user asked for it by that name or the config has another login node of the site. For a
// generic site it is made from the address.
func hostName(cfg *configs.Config, argument string, s configs.Site, ssh string) string {
	address := addressOf(ssh)
	if s.Generic() {
		name, _, _ := strings.Cut(address, ".")
		if plainNumber.MatchString(name) {
			name = "host-" + address // a numeric address
		}
		return strings.Trim(notInName.ReplaceAllString(name, "-"), "-")
	}
	other := slices.ContainsFunc(cfg.Hosts, func(h configs.Host) bool { return h.Name == s.Name && addressOf(h.SSH) != address })
	if e, ok := s.EntranceAt(address); ok && (other || argument == e.Name) {
		return e.Name
	}
	return s.Name
}

// addressOf is the host of a destination.
func addressOf(ssh string) string { return ssh[strings.LastIndexByte(ssh, '@')+1:] }

// jobName is a name for the session's job that its scheduler does not shorten, and that no
// other session has there: the two would share a job.
func jobName(cfg *configs.Config, site configs.Site, host, session string) string {
	name := site.JobName(session)
	taken := func(s configs.Session) bool {
		return s.Job == name && (s.Host == host || cfg.Host(s.Host).Site == site.Name)
	}
	for n := 2; slices.ContainsFunc(cfg.Sessions, taken); n++ {
		name = site.JobName(fmt.Sprintf("%s-%d", session, n))
	}
	return name
}

// usedBy is the session of the config that uses this job of the user's; "": none.
func (p plan) usedBy(cfg *configs.Config) string {
	for _, s := range cfg.Sessions {
		if s.Host == p.host && s.Submit == p.submit && (!p.adopts || s.Job == p.jobName) {
			return s.Name
		}
	}
	return ""
}

// hostText is the section of the host. A host of no known site needs none: its scheduler is
// found out.
func (p plan) hostText() string {
	var b strings.Builder
	site := p.job.Site
	if p.siteFound {
		site = configs.Site{}
	}
	if site.Name != "" {
		fmt.Fprintf(&b, "# %s. `tunctl sites %s` shows what is known about it.\n", words.Capital(site.Title), site.Name)
	}
	fmt.Fprintf(&b, "[host.%s]\n", p.host)
	if p.ssh != p.host {
		fmt.Fprintf(&b, "ssh  = %s\n", configs.Quote(p.ssh))
	}
	if site.Name != "" {
		fmt.Fprintf(&b, "site = %s\n", configs.Quote(site.Name))
	}
	if p.ownMachine {
		fmt.Fprintf(&b, "scheduler = %s\n", noScheduler)
	}
	if renew := site.Certificate.Renew; renew != "" {
		todo := "Remove the # to use it."
		if capitalWord.MatchString(renew) {
			todo = "Replace the words in capitals, and remove the #."
		}
		fmt.Fprintf(&b, "# Gets a new certificate before each login. %s\n# before_login = %s\n", todo, configs.Quote(renew))
	}
	return b.String()
}

// changesHost reports whether the config has the host with another destination.
func (p plan) changesHost() bool { return p.configured != "" && p.configured != p.ssh }

// withHost is a config with the host.
func (p plan) withHost(config []byte) ([]byte, error) {
	switch {
	case p.configured == "":
		return configs.Appended(config, p.hostText()), nil
	case p.changesHost():
		return configs.Changed(config, "host", p.host, "ssh", configs.Quote(p.ssh))
	case p.ownMachine:
		return withoutScheduler(config, p.host)
	}
	return config, nil
}

// config is a config with the host and the session.
func (p plan) config(config []byte) ([]byte, error) {
	config, err := p.withHost(config)
	if err != nil {
		return nil, err
	}
	if p.changes {
		return configs.Changed(config, "session", p.session, "with", p.with())
	}
	return configs.Appended(config, p.sessionText()), nil
}

// text is what is new in the config: one that has nothing else.
func (p plan) text() (string, error) {
	text, err := p.config(nil)
	if err == nil && !p.changes { // the section of a session that changes is not whole
		_, err = configs.Parse("the new section", text)
	}
	return string(text), err
}

// nextStep is what the user does next, and why if the scheduler refused the job.
func (p plan) nextStep(refused string) string {
	up := "tunctl up " + p.session
	switch {
	case refused != "" && p.ownsJob():
		return fmt.Sprintf("Next: change the script, then ask the scheduler again: %s --dry-run", up)
	case refused != "":
		return fmt.Sprintf("Next: change what the scheduler refuses: tunctl init %s", p.host)
	case p.install != "" && p.job.Answers["venv"] == p.install:
		install := fmt.Sprintf("tunctl ssh %[1]s 'python3 -m venv %[2]s && %[2]s/bin/pip install jupyterlab'", p.host, p.install)
		return fmt.Sprintf("Next: install Jupyter on %s, once; then start it:\n\n  %s\n  %s", p.host, install, up)
	}
	return "Next: " + up
}

// sessionText is the section of the session, with comments.
func (p plan) sessionText() string {
	var b strings.Builder
	set := func(key, value string) { fmt.Fprintf(&b, "%-6s = %s\n", key, value) }
	commented := func(key, value, comment string) {
		set(key, configs.Quote(value)+strings.Repeat(" ", max(2, 20-len(value)))+"# "+comment)
	}
	fmt.Fprintf(&b, "%s[session.%s]\n", p.comment(), p.session)
	set("host", configs.Quote(p.host))
	set("app", configs.Quote(p.job.App))
	switch {
	case p.submit != "" && !p.adopts:
		set("submit", configs.Quote(p.submit))
	case p.submit == "" && p.adopts:
		commented("job", p.jobName, "use the job of this name")
	default:
		commented("job", p.jobName, "use a job of this name if there is one …")
		if p.submit != "" {
			commented("submit", p.submit, "… otherwise submit this")
		} else {
			commented("submit", "builtin:"+p.job.App, fmt.Sprintf("… otherwise submit this; `tunctl script %s` prints it", p.session))
		}
	}
	if p.workdir != "" {
		set("workdir", configs.Quote(p.workdir))
	}
	if len(p.args) > 0 {
		set("args", "["+strings.Join(lists.Map(p.args, configs.Quote), ", ")+"]")
	}
	if with := p.with(); with != "{}" {
		set("with", with)
	}
	return b.String()
}

// comment says what the session does.
func (p plan) comment() string {
	does := "starts this job, waits for it and opens the page."
	switch {
	case p.job.App == configs.ShellApp:
		does = fmt.Sprintf("starts this job. It serves no page: `tunctl ssh %[1]s` is a shell inside,\n# `tunctl code %[1]s` opens an editor there.", p.session)
	case p.submit == "" && p.adopts:
		does = "opens the page of this job."
	case p.job.App == "jupyter":
		does = "starts this notebook, waits for it and opens the page."
	}
	return fmt.Sprintf("# `tunctl up %s` %s\n", p.session, does)
}

// with writes the answers in the order of the questions.
func (p plan) with() string {
	if p.ownsJob() {
		return "{}"
	}
	var list []string
	for _, q := range p.job.Questions() {
		text, given := p.job.Answers[q.Name]
		switch {
		case !given || q.Quiet && text == q.Default:
		case plainNumber.MatchString(text):
			list = append(list, q.Name+" = "+text)
		default:
			list = append(list, q.Name+" = "+configs.Quote(text))
		}
	}
	if len(list) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(slices.Compact(list), ", ") + " }"
}

// configFile is the config file while it is changed.
type configFile struct {
	path        string
	client      *client.Client
	before, now []byte // nil while there is no file
}

func readConfigFile(path string, cl *client.Client) (configFile, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return configFile{path: path, client: cl, before: text, now: text}, err
}

// write replaces the file. A running agent has read it when this returns.
func (f *configFile) write(ctx context.Context, text []byte) error {
	if bytes.Equal(f.now, text) {
		return nil
	}
	if err := configs.Replace(f.path, f.now, text); err != nil {
		return err
	}
	f.now = text
	if err := f.client.Reload(ctx); err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	return nil
}

func (f *configFile) changed() bool { return !bytes.Equal(f.now, f.before) }

// Append adds text at the end of the config file. A running agent has read it when this returns.
func Append(ctx context.Context, cl *client.Client, config, text string) error {
	f, err := readConfigFile(config, cl)
	if err != nil {
		return err
	}
	return f.write(ctx, configs.Appended(f.before, text))
}

// noScheduler is the value of scheduler of a host without one, as TOML.
const noScheduler = `"none"`

// OwnMachineQuestion is the question whether jobs may run on a host where no scheduler was found.
func OwnMachineQuestion(host string) string {
	return "No scheduler was found on " + host + ". Is this your own machine, so that jobs may run on it directly?"
}

// SetOwnMachine writes to the config that a host has no scheduler.
func SetOwnMachine(ctx context.Context, cl *client.Client, config, host string) error {
	f, err := readConfigFile(config, cl)
	if err != nil {
		return err
	}
	text, err := withoutScheduler(f.before, host)
	if err != nil {
		return err
	}
	return f.write(ctx, text)
}

// withoutScheduler is a config that says of a host that it has no scheduler.
func withoutScheduler(config []byte, host string) ([]byte, error) {
	return configs.Changed(config, "host", host, "scheduler", noScheduler)
}
