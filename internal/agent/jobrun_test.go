package agent

import (
	"context"
	"strings"
	"testing"

	"tunctl/internal/agent/probe"
	"tunctl/internal/api"
	"tunctl/internal/latest"
	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
)

func TestAMovedJobIsFollowedByWhatItsLogSaidLast(t *testing.T) {
	at := func(host string) detect.Finding {
		return detect.Finding{Found: true, Endpoint: api.Endpoint{Scheme: "http", Host: host, Port: 8888}}
	}
	for name, tt := range map[string]struct {
		said []detect.Finding // in the life before, on cn01
		want bool
	}{
		"its new node's name":          {[]detect.Finding{at("cn01"), at("cn02.cluster")}, true},
		"another address":              {[]detect.Finding{at("10.0.0.1"), at("10.0.0.2")}, true},
		"an address after a new log":   {[]detect.Finding{at("10.0.0.1"), {}, at("10.0.0.1")}, true},
		"nothing since":                {[]detect.Finding{at("10.0.0.1")}, false},
		"another server where it was":  {[]detect.Finding{at("10.0.0.1"), at("cn01")}, false},
		"nothing, in a log begun anew": {[]detect.Finding{at("cn01"), {}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := &jobRun{jobs: jobwatch.NewWatcher(nil, jobwatch.Options{}), prober: probe.New(probe.Options{}), node: "cn01"}
			for _, f := range tt.said {
				before.handleFinding(f, api.Job{ID: "7", Node: "cn01"})
			}
			after := &jobRun{jobs: jobwatch.NewWatcher(nil, jobwatch.Options{}), prober: probe.New(probe.Options{}), previous: before}
			after.resume(api.Job{ID: "7", Node: "cn02"})
			if got := after.prober.Target() != nil; got != tt.want {
				t.Errorf("it is asked: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestWhatTheLogSaidAsTheJobMovedIsNotLost(t *testing.T) {
	at := func(host string) detect.Finding {
		return detect.Finding{Found: true, Endpoint: api.Endpoint{Scheme: "http", Host: host, Port: 8888}}
	}
	before := &jobRun{jobs: jobwatch.NewWatcher(nil, jobwatch.Options{}), prober: probe.New(probe.Options{}), node: "cn01", logFindings: make(chan detect.Finding, 1)}
	before.handleFinding(at("cn01"), api.Job{ID: "7", Node: "cn01"})
	latest.Offer(before.logFindings, at("cn02")) // the follower is past this line when the scheduler tells of the move
	after := &jobRun{jobs: jobwatch.NewWatcher(nil, jobwatch.Options{}), prober: probe.New(probe.Options{}), previous: before}
	after.resume(api.Job{ID: "7", State: api.JobQueued}) // an answer from before the new start
	if after.prober.Target() != nil {
		t.Error("it is asked before its node is known")
	}
	after.resume(api.Job{ID: "7", Node: "cn02"})
	if after.prober.Target() == nil || after.finding.Host != "cn02" {
		t.Errorf("the line that names the new node is lost: %+v", after.finding)
	}
}

func TestARouteToWhatTheLogNoLongerAnnouncesOpensNoPage(t *testing.T) {
	s := quietSession(t)
	r := &jobRun{session: s, prober: probe.New(probe.Options{}), nodes: newNodes(s, nil, nil)}
	before := &probe.Target{Finding: detect.Finding{Endpoint: api.Endpoint{Host: "cn01", Port: 8888}}}
	now := &probe.Target{Finding: detect.Finding{Endpoint: api.Endpoint{Host: "cn01", Port: 8889}}}
	r.prober.SetTarget(before)
	r.prober.SetTarget(now)
	for _, target := range []*probe.Target{before, now} {
		r.handleProbe(probe.Result{Target: target, Route: &probe.Route{Endpoint: target.Finding.Endpoint}})
		if opened := r.session.pages.route != nil; opened != (target == now) {
			t.Errorf("port %d: the page is open: %t", target.Finding.Port, opened)
		}
	}
}

func TestAProbeThatEndsAfterTheServerOpensNoPage(t *testing.T) {
	s := quietSession(t)
	r := &jobRun{session: s, prober: probe.New(probe.Options{}), nodes: newNodes(s, nil, nil)}
	f := detect.Finding{Found: true, Endpoint: api.Endpoint{Host: "cn01", Port: 8888}}
	target := &probe.Target{Finding: f}
	r.prober.SetTarget(target)
	f.Ended = true
	r.handleFinding(f, api.Job{ID: "7"})
	r.handleProbe(probe.Result{Target: target, Route: &probe.Route{Endpoint: f.Endpoint}})
	if r.session.pages.route != nil || r.session.Facts().Answers {
		t.Error("the page of a server that has stopped is open")
	}
	r.handleProbe(probe.Result{Target: target, Doing: "it does not respond yet"})
	if got := r.session.facts.Doing.Text; got == "it does not respond yet" {
		t.Errorf("shown is %q", got)
	}
}

func TestMovedTellsARequeueFromAStart(t *testing.T) {
	queued := api.Job{State: api.JobQueued}
	running := api.Job{State: api.JobRunning, Node: "cn01"}
	elsewhere := api.Job{State: api.JobRunning, Node: "cn02"}
	again := api.Job{State: api.JobRunning, Node: "cn01", Restarts: 1}
	silent := api.Job{State: api.JobUnknown}
	tests := []struct {
		name     string
		was, now api.Job
		want     bool
	}{
		{"it starts", queued, running, false},
		{"it goes on", running, running, false},
		{"another node", running, elsewhere, true},
		{"restarted on the same node", running, again, true},
		{"back in the queue", running, queued, true},
		{"no answer", running, silent, false},
		{"an array's next task on the same node", api.Job{State: api.JobRunning, Node: "cn01", Task: "1"}, api.Job{State: api.JobRunning, Node: "cn01", Task: "2"}, true},
		{"the rest of an array waits", api.Job{State: api.JobCompleting, Node: "cn01", Task: "1"}, queued, true},
	}
	for _, tt := range tests {
		if got := moved(tt.was, tt.now); got != tt.want {
			t.Errorf("%s: moved = %v", tt.name, got)
		}
	}
}

func TestAJobThatRanOutOfMemoryIsStartedAgainWithMore(t *testing.T) {
	s := quietSession(t)
	s.facts.Served = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // there is no host to read the log on
	job := api.Job{ID: "7", State: api.JobOOM, Memory: 5 << 29}
	for submit, want := range map[string]string{"~/jupyter.sh": "`tunctl up jupyter --with memory=5G` starts one with more memory", "": "start the job on narval"} {
		s.cfg.Submit = submit
		if e, ok := asAPI((&jobRun{session: s}).finish(ctx, job, true)); !ok || !strings.Contains(e.Hint, want) {
			t.Errorf("%q: %v, hint %q", submit, e, e.Hint)
		}
	}
}
