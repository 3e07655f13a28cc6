package main

import (
	"context"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/transfer"
)

// knownPatience bounds how long a shell waits for its offers.
const knownPatience = time.Second

// knowledge is what is known without asking anybody far away: the config, the ssh
// config, and what a running agent knows. It starts no agent, connects to no host and
// asks no scheduler. What cannot be read is not offered.
type knowledge struct {
	ctx    context.Context //nolint:containedctx // it is one answer to a shell, and ends with it
	close  context.CancelFunc
	paths  home.Paths
	config *configs.Config
	client *client.Client
}

// newKnowledge reads the config; "" is the usual one.
func newKnowledge(config string) (knowledge, error) {
	p, err := findPaths(configs.LocalPath(config)) // a shell may leave the ~ to us
	if err != nil {
		return knowledge{}, err
	}
	cfg, err := configs.Load(p.Config)
	if err != nil {
		cfg = &configs.Config{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), knownPatience)
	return knowledge{ctx: ctx, close: cancel, paths: p, config: cfg, client: client.New(p)}, nil
}

// status is what a running agent knows.
func (k knowledge) status() api.Status {
	st, err := k.client.Status(k.ctx)
	if err != nil {
		return api.Status{}
	}
	return st
}

// sessions offers the config's sessions, and those that the agent has besides.
func (k knowledge) sessions(o *offers, suffix string) {
	known := k.status().Sessions
	states := map[string]api.SessionState{}
	for _, s := range known {
		states[s.Name] = s.State
	}
	for _, s := range k.config.Sessions {
		o.add(s.Name+suffix, strings.TrimSpace(string(states[s.Name])+" on "+s.Host))
		delete(states, s.Name)
	}
	for _, s := range known {
		if _, more := states[s.Name]; more {
			o.add(s.Name+suffix, string(s.State)+" on "+s.Host)
		}
	}
}

// hosts offers the hosts of the config, of the ssh config and of the agent.
func (k knowledge) hosts(o *offers, suffix string) {
	known := k.status().Hosts
	states := map[string]api.HostState{}
	for _, h := range known {
		states[h.Alias] = h.State
	}
	for _, name := range knownHosts(k.config) {
		about := "host"
		if state := states[name]; state != "" {
			about += ", " + string(state)
		}
		o.add(name+suffix, about)
		delete(states, name)
	}
	for _, h := range known {
		if _, more := states[h.Alias]; more {
			o.add(h.Alias+suffix, "host, "+string(h.State))
		}
	}
}

// jobs offers the jobs that the agent last heard of on the host that the line names.
func (k knowledge) jobs(o *offers, args []string) {
	if len(args) == 0 {
		return
	}
	list, err := k.client.LastJobs(k.ctx, args[0])
	if err != nil {
		return
	}
	for _, j := range list {
		o.add(j.Ref(), strings.TrimSpace(j.Name+" "+string(j.State)+" "+j.Node))
	}
}

func (k knowledge) sites(o *offers) {
	sites, _ := configs.LoadSites(configs.SitesFolder(k.paths.Config)) // those that can be read
	for _, s := range sites {
		o.add(s.Name, s.Title)
	}
}

// places offers what `cp` copies from or to: local files, hosts, and once a host is
// typed the files there.
func (k knowledge) places(o *offers, typed string) {
	s := spotOf(typed)
	if s.host == "" {
		o.files = true
		k.hosts(o, ":")
		k.sessions(o, ":")
		return
	}
	k.files(o, s.loginNode(k.paths), typed)
}

// files offers a connected host's files for HOST:PATH.
func (k knowledge) files(o *offers, host, typed string) {
	at := strings.LastIndexAny(typed, ":/") + 1
	folder, begun := typed[:at], typed[at:]
	stream, err := k.client.Stream(k.ctx, api.StreamRequest{Kind: api.StreamSFTP, Host: host, Connected: true, Spare: true, Unattended: true})
	if err != nil {
		return
	}
	names, err := transfer.List(k.ctx, stream, spotOf(folder).path, begun)
	if err != nil {
		return
	}
	for _, name := range names {
		if !strings.HasPrefix(name, ".") || strings.HasPrefix(begun, ".") {
			o.add(folder+name, "")
		}
	}
}
