package main

import (
	"context"
	"embed"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/cmdline"
	"tunctl/internal/editor"
	"tunctl/internal/home"
	"tunctl/internal/lists"
	"tunctl/internal/term"
	"tunctl/internal/transfer"
)

//go:embed completion
var completionScripts embed.FS

func completionCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completion script for a shell",
		ArgsUsage: "bash|zsh|fish|powershell",
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("completion takes one shell: bash, zsh, fish or powershell")
			}
			text, err := fs.ReadFile(completionScripts, "completion/"+strings.ToLower(c.Args().First()))
			if err != nil {
				return usagef("no completion for %q: the shell must be bash, zsh, fish or powershell", c.Args().First())
			}
			_, err = t.Out.Write(text)
			return err
		},
	}
}

// completeLine prints the words that may follow on a command line.
func completeLine(w io.Writer, at cmdline.Position) error {
	p, noPaths := findPaths(configs.LocalPath(at.Config)) // a shell may not have expanded the ~
	limit := completionTimeout
	if os.Getenv("TUNCTL_PRACTICE") != "" { // no test depends on the speed of the machine
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	src := sync.OnceValue(func() candidateSource { return candidateSource{ctx, p, readConfig(p), client.New(p)} })
	return at.Complete(w, func(o *cmdline.Candidates, kind, typed string, at cmdline.Position) {
		if noPaths == nil {
			src().add(o, kind, typed, at)
		}
	})
}

// completionTimeout bounds how long a shell waits for its candidates.
const completionTimeout = time.Second

// candidateSource has the words that are known locally: those of the config, of the ssh config
// and of a running agent. It starts no agent, connects to no host and queries no scheduler.
// Words that cannot be read are left out.
type candidateSource struct {
	ctx    context.Context //nolint:containedctx // it lives for one completion
	paths  home.Paths
	config *configs.Config
	client *client.Client
}

// add adds the words of a kind.
func (src candidateSource) add(o *cmdline.Candidates, kind, typed string, at cmdline.Position) {
	switch kind {
	case "SESSION":
		src.sessions(o, "")
	case "HOST":
		src.hosts(o, "")
	case "JOB":
		src.jobs(o, at.Args)
	case "ENDPOINT":
		src.endpoints(o, at.Args)
	case "SITE":
		for _, s := range readSites(src.paths) {
			o.Add(s.Name, s.Title)
		}
	case "NAME=VALUE":
		src.choices(o, at, typed)
	case "SRC", "DST":
		src.locations(o, typed)
	case "EDITOR":
		for _, e := range editor.All {
			o.Add(e.Command, e.Title)
		}
	}
}

// status is that of a running agent; empty without one.
func (src candidateSource) status() api.Status {
	st, _ := src.client.Status(src.ctx)
	return st
}

// sessions adds the sessions of the agent, with their states, and those of the config. Of a
// word that is added twice, the first counts.
func (src candidateSource) sessions(o *cmdline.Candidates, suffix string) {
	for _, s := range src.status().Sessions {
		o.Add(s.Name+suffix, string(s.State)+" on "+s.Host)
	}
	for _, s := range src.config.Sessions {
		o.Add(s.Name+suffix, "on "+s.Host)
	}
}

// endpoints adds the other pages of the job of the session that the line names, or of all.
func (src candidateSource) endpoints(o *cmdline.Candidates, args []string) {
	for _, s := range src.status().Sessions {
		for _, e := range s.Endpoints {
			if len(args) == 0 || args[0] == s.Name {
				o.Add(e.Name, e.Title()+" of "+s.Name)
			}
		}
	}
}

// hosts adds the hosts of the agent, with their states, of the config and of the ssh config.
func (src candidateSource) hosts(o *cmdline.Candidates, suffix string) {
	for _, h := range src.status().Hosts {
		o.Add(h.Alias+suffix, "host, "+string(h.State))
	}
	for _, name := range knownHosts(src.config) {
		o.Add(name+suffix, "host")
	}
}

// jobs adds the jobs that the agent last saw on the host that the line names.
func (src candidateSource) jobs(o *cmdline.Candidates, args []string) {
	if len(args) == 0 {
		return
	}
	list, _ := src.client.LastJobs(src.ctx, args[0])
	for _, j := range list {
		o.Add(j.Ref(), strings.TrimSpace(j.Name+" "+string(j.State)+" "+j.Node))
	}
}

// choices adds what --with may choose for the session or site that the line names, and after
// NAME= its values.
func (src candidateSource) choices(o *cmdline.Candidates, at cmdline.Position, typed string) {
	name := ""
	switch {
	case len(at.Args) > 0:
		name = at.Args[0]
	case len(src.config.Sessions) == 1:
		name = src.config.Sessions[0].Name
	}
	for _, x := range src.options(name) {
		chosen, _, hasValue := strings.Cut(typed, "=")
		if !hasValue {
			o.Add(x.Name+"=", x.Ask)
			continue
		}
		for _, value := range slices.Concat(x.Choices, x.Known) {
			if x.Name == chosen {
				o.Add(x.Name+"="+value, "")
			}
		}
	}
}

// options are the choices of a session, as a running agent knows them, or of the session's
// site; or those of a site.
func (src candidateSource) options(name string) []api.Option {
	if known, err := src.client.Choices(src.ctx, name, false); err == nil {
		return known.Options
	}
	sites := readSites(src.paths)
	session, isSession := src.config.Session(name)
	host := src.config.Host(session.Host)
	site, err := sites.Find(name)
	if isSession {
		site, err = sites.ForHost(host, host.Scheduler)
	} else {
		session.Submit = "builtin:jupyter"
	}
	if err != nil && session.Builtin() != "" || isSession && session.Submit == "" {
		return nil
	}
	return lists.Map(session.RunQuestions(site), func(q configs.Question) api.Option {
		return api.Option{Name: q.Name, Ask: q.Ask, Choices: site.Listed(q)}
	})
}

// locations adds what `cp` copies from or to: local files, hosts, and once a host is typed
// the files there.
func (src candidateSource) locations(o *cmdline.Candidates, typed string) {
	s := parseLocation(typed)
	if s.host == "" {
		o.Files = true
		src.hosts(o, ":")
		src.sessions(o, ":")
		return
	}
	// Of a session it is the login node, which has the same home folder: completion starts
	// nothing inside a job.
	src.files(o, parseDestination(src.config, src.status(), s.host).Host, typed)
}

// files adds a connected host's files for HOST:PATH.
func (src candidateSource) files(o *cmdline.Candidates, host, typed string) {
	at := strings.LastIndexAny(typed, ":/") + 1
	folder, begun := typed[:at], typed[at:]
	stream, err := src.client.Stream(src.ctx, api.StreamRequest{Kind: api.StreamSFTP, Host: host, Connected: true, Spare: true, Unattended: true})
	if err != nil {
		return
	}
	names, _ := transfer.List(src.ctx, stream, parseLocation(folder).path, begun)
	for _, name := range names {
		if !strings.HasPrefix(name, ".") || strings.HasPrefix(begun, ".") {
			o.Add(folder+name, "")
		}
	}
}
