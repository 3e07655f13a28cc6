package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

// openStream opens a private stream, and puts the host's questions to the person meanwhile.
func openStream(ctx context.Context, t *term.Terminal, cl *client.Client, req api.StreamRequest) (*client.Stream, error) {
	if !t.Interactive {
		req.Unattended = true
		return cl.Stream(ctx, req)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	ready, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		q := &questions{term: t, client: cl}
		defer q.wait()
		first := true
		_ = cl.Watch(watching, api.AnswersTerminal, func(e api.Event) { // stop ends it; the stream has the error
			switch {
			case first:
				first = false
				close(ready)
			case q.handle(watching, e):
			case e.Type == api.EventHost && e.Host.Alias == req.Host:
				q.sayElsewhere(*e.Host)
			}
		})
	}()
	select {
	case <-ready:
	case <-over:
	}
	s, err := cl.Stream(ctx, req)
	stop()
	<-over
	return s, err
}

// aliasSuffix marks the names that `tunctl ssh-config install` gives to ssh.
const aliasSuffix = ".tun"

// destination reads HOST, SESSION, NODE.HOST, or one of these with .tun. A session is
// its job's compute node, or its host where it has no job.
func destination(p home.Paths, st api.Status, name string) (api.StreamRequest, error) {
	name = strings.TrimSuffix(name, aliasSuffix)
	cfg, err := configs.Load(p.Config)
	if err != nil {
		cfg = &configs.Config{} // the name may be an alias of ~/.ssh/config
	}
	hosts := cfg.HostNames()
	if slices.Contains(hosts, name) {
		return api.StreamRequest{Host: name}, nil
	}
	if s, ok := cfg.Session(name); ok {
		return sessionNode(st, s)
	}
	if node, host, ok := strings.Cut(name, "."); ok && slices.Contains(hosts, host) {
		return api.StreamRequest{Host: host, Node: node}, nil
	}
	return api.StreamRequest{Host: name}, nil
}

func sessionNode(st api.Status, cfg configs.Session) (api.StreamRequest, error) {
	req := api.StreamRequest{Host: cfg.Host}
	s, _ := st.Session(cfg.Name)
	switch {
	case hasLiveJob(s) && s.Job.Node != "":
		req.Node = s.Job.Node
	case cfg.Submit != "" || cfg.Job != "":
		return req, &api.Error{
			Code: api.CodeNotReady, Message: fmt.Sprintf("session %q has no running job, so it has no compute node", cfg.Name),
			Hint: fmt.Sprintf("`tunctl up %s` starts it; `tunctl ssh %s` opens a shell on the login node", cfg.Name, cfg.Host),
		}
	}
	return req, nil
}
