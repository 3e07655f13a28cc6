package run

import (
	"context"
	"strings"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/state"
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
			before := &Run{jobs: jobwatch.NewWatcher(nil, jobwatch.Options{}), prober: probe.New(probe.Options{}), node: "cn01"}
			for _, f := range tt.said {
				before.handleFinding(f, api.Job{ID: "7", Node: "cn01"})
			}
			after := &Run{jobs: jobwatch.NewWatcher(nil, jobwatch.Options{}), prober: probe.New(probe.Options{}), previous: before}
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
	before := &Run{jobs: jobwatch.NewWatcher(nil, jobwatch.Options{}), prober: probe.New(probe.Options{}), node: "cn01", logFindings: make(chan detect.Finding, 1)}
	before.handleFinding(at("cn01"), api.Job{ID: "7", Node: "cn01"})
	latest.Offer(before.logFindings, at("cn02")) // the follower is past this line when the scheduler tells of the move
	after := &Run{jobs: jobwatch.NewWatcher(nil, jobwatch.Options{}), prober: probe.New(probe.Options{}), previous: before}
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
	r, owner := newRun(t)
	before := &probe.Target{Finding: detect.Finding{Endpoint: api.Endpoint{Host: "cn01", Port: 8888}}}
	now := &probe.Target{Finding: detect.Finding{Endpoint: api.Endpoint{Host: "cn01", Port: 8889}}}
	r.prober.SetTarget(before)
	r.prober.SetTarget(now)
	for _, target := range []*probe.Target{before, now} {
		r.handleProbe(probe.Result{Target: target, Route: &probe.Route{Endpoint: target.Finding.Endpoint}})
		if opened := owner.Route != nil; opened != (target == now) {
			t.Errorf("port %d: the page is open: %t", target.Finding.Port, opened)
		}
	}
}

func TestAProbeThatEndsAfterTheServerOpensNoPage(t *testing.T) {
	r, owner := newRun(t)
	f := detect.Finding{Found: true, Endpoint: api.Endpoint{Host: "cn01", Port: 8888}}
	target := &probe.Target{Finding: f}
	r.prober.SetTarget(target)
	f.Ended = true
	r.handleFinding(f, api.Job{ID: "7"})
	r.handleProbe(probe.Result{Target: target, Route: &probe.Route{Endpoint: f.Endpoint}})
	if owner.Route != nil || owner.Known.Answers {
		t.Error("the page of a server that has stopped is open")
	}
	r.handleProbe(probe.Result{Target: target, Doing: "it does not respond yet"})
	if got := owner.Known.Doing.Text; got == "it does not respond yet" {
		t.Errorf("shown is %q", got)
	}
}

func TestStopServing(t *testing.T) {
	r, owner := newRun(t)
	target := &probe.Target{Job: "7", Finding: detect.Finding{Found: true, Ended: true, Endpoint: api.Endpoint{Host: "cn01", Port: 8888}}}
	r.prober.SetTarget(target)
	open, failed := probe.Result{Target: target, Route: &probe.Route{Endpoint: target.Finding.Endpoint}}, probe.Result{Target: target}
	for _, result := range []probe.Result{open, failed, failed, open} {
		r.handleProbe(result)
		if opened := owner.Route != nil; opened != (result.Route != nil) {
			t.Errorf("the page is open: %t", opened)
		}
	}
	if r.prober.Target() != target {
		t.Error("it is not asked any more after one try that failed")
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
	r, owner := newRun(t)
	owner.Known.Served = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // there is no host to read the log on
	job := api.Job{ID: "7", State: api.JobOOM, Memory: 5 << 29}
	for submit, want := range map[string]string{"~/jupyter.sh": "`tunctl up jupyter --with memory=5G` starts one with more memory", "": "start the job on narval"} {
		owner.Session.Submit = submit
		if err := r.finish(ctx, job, true); !strings.Contains(api.HintOf(err), want) {
			t.Errorf("%q: %v, hint %q", submit, err, api.HintOf(err))
		}
	}
}

func TestAJobThatCannotBeEnteredIsSaidToBeCharged(t *testing.T) {
	r, owner := newRun(t)
	owner.Session.App, owner.Known.Answers = configs.ShellApp, false
	owner.Save(t, state.Session{Wanted: true, Submissions: state.Submissions{{Role: state.RoleJob, Job: &api.Job{ID: "7", State: api.JobRunning, Node: "cn01"}}}})
	r.proveShell(*owner.Known.Job())
	if cause, hint := owner.Derived().Cause, owner.Derived().Hint; cause != "running a command inside job 7 on cn01" || hint != "" {
		t.Errorf("before the first try: %s (%s)", cause, hint)
	}
	if got := r.prober.Prove(t.Context(), r.prober.Target(), time.Now()); got.Route != nil || !strings.HasPrefix(got.Doing, "no command runs inside job 7 on cn01 yet: ") {
		t.Errorf("no node is connected, and it is proven: %+v", got)
	}
	r.handleProbe(probe.Result{Target: r.prober.Target(), Doing: "no command runs inside job 7 on cn01 yet: login refused"})
	if now := owner.Derived(); now.State != api.SessionStarting || !strings.Contains(now.Cause, "login refused") || !strings.Contains(now.Hint, "`tunctl down jupyter --cancel` ends it") {
		t.Errorf("it is %s: %s (%s)", now.State, now.Cause, now.Hint)
	}
}

func TestAProgramInsideAJobIsToldThatItIsOutsideTheContainer(t *testing.T) {
	_, owner := newRun(t)
	owner.Configure(t, "[host.dfki]\nssh = \"u@example.org\"\nsite = \"pegasus\"\n\n[host.other]\nssh = \"u@example.org\"\n")
	for name, tt := range map[string]struct {
		host, submit string
		config, run  map[string]string // answers of the config, and for this run
		want         string
	}{
		"no container":                 {"other", "builtin:jupyter", nil, nil, ""},
		"a container of the config":    {"other", "builtin:jupyter", map[string]string{"container": "/img/a.sif"}, nil, "apptainer shell '/img/a.sif'"},
		"a container of this run":      {"other", "builtin:jupyter", map[string]string{"container": "/img/a.sif"}, map[string]string{"container": "~/b.sif"}, `apptainer shell "$HOME"/'b.sif'`},
		"the site's own container":     {"dfki", "builtin:jupyter", map[string]string{"image": "/img/c.sqsh"}, nil, "enroot exec PID"},
		"a job without a server":       {"dfki", "builtin:shell", nil, nil, ""},
		"a script of the person's own": {"dfki", "~/job.sh", nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configs.Session{Name: "x", Host: tt.host, Submit: tt.submit, With: tt.config}
			if got := containerNotice(owner.Settings, cfg.WithAnswers(tt.run)); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("told %q", got)
			}
		})
	}
}

func TestSilence(t *testing.T) {
	r, owner := newRun(t)
	r.runningSince, r.logPath = time.Now().Add(-time.Minute), "~/out.log"
	job := api.Job{ID: "7", State: api.JobRunning}
	for _, want := range []string{"and its log does not exist yet: ~/out.log", "and its log is still empty: ~/out.log"} {
		if r.reportSilence(job); !strings.HasSuffix(owner.Facts().Doing.Text, want) {
			t.Errorf("it says %q, want %q", owner.Facts().Doing.Text, want)
		}
		r.logExists.Store(true)
	}
}
