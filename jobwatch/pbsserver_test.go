package jobwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
)

// pbsServer is a Runner in memory: a PBS server with the jobs that a test adds. It counts the
// connections that PBS's programs would make to it.
type pbsServer struct {
	mu        sync.Mutex
	jobs      []pbsJob
	forgets   bool // keeps no history
	torque    bool // answers -x with XML
	connected []time.Time
	ran       []string // the commands
	scripts   int      // how often a job's script was looked into
	mute      string   // the job of which qstat -f says nothing that can be read
	cutAnswer bool     // what the submit script prints has no frame
	since     string   // when something was submitted whose answer was lost
}

// pbsJob is a job of the server, by attribute; its id is "Job Id".
type pbsJob map[string]string

// add adds a job to the server; attributes come in pairs.
func (p *pbsServer) add(id, name, state string, attributes ...string) pbsJob {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := pbsJob{
		"Job Id": id, "Job_Name": name, "job_state": state, "queue": "normal", "Keep_Files": "oed",
		"ctime": time.Now().UTC().Format(time.ANSIC), "Output_Path": "login1:/home/mira/" + name + ".log",
		"Variable_List": "PBS_O_HOME=/home/mira,PBS_O_WORKDIR=/home/mira/work",
	}
	p.jobs = append(p.jobs, r)
	r.become(state, attributes...)
	return r
}

// set changes a job.
func (p *pbsServer) set(r pbsJob, state string, attributes ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.become(state, attributes...)
}

func (r pbsJob) become(state string, attributes ...string) {
	r["job_state"] = state
	if state == "R" && r["stime"] == "" {
		r["stime"], r["exec_host"] = time.Now().UTC().Format(time.ANSIC), "e12/0*8"
	}
	for i := 0; i < len(attributes); i += 2 {
		r[attributes[i]] = attributes[i+1]
	}
}

func (r pbsJob) over() bool { return slices.Contains([]string{"F", "X"}, r["job_state"]) }

// connections are when they were made.
func (p *pbsServer) connections() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.connected)
}

// commands are those that were run and contain text.
func (p *pbsServer) commands(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, c := range p.ran {
		if strings.Contains(c, text) {
			n++
		}
	}
	return n
}

// mostWithin is the highest number of connections within any period of that length.
func (p *pbsServer) mostWithin(d time.Duration) int {
	all, most := p.connections(), 0
	for i, from := range all {
		n := 0
		for _, at := range all[i:] {
			if at.Sub(from) < d {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

var (
	pbsCommand = regexp.MustCompile(`(?m)limit (qstat|qselect|qdel) ([^\n|]*)`)
	quotedWord = regexp.MustCompile(`'([^']*)'`)
	answerMark = regexp.MustCompile(`'\\n%s %s\\n' (tunctl-\w+)`)
	nameOption = regexp.MustCompile(`-N '([^']*)'`)
)

func (p *pbsServer) Run(ctx context.Context, _ string, stdin []byte) (remote.Result, error) {
	time.Sleep(50 * time.Millisecond) // in a synctest bubble: the round trip
	p.mu.Lock()
	defer p.mu.Unlock()
	script := string(stdin)
	out, errout, exit := "", "", 0
	m := pbsCommand.FindStringSubmatch(script)
	switch {
	case strings.Contains(script, "tunctl_limit qsub"):
		out = p.qsub(script)
	case strings.Contains(script, "table()"):
		options := script[strings.LastIndex(script, "table"):]
		p.ran = append(p.ran, "qstat -u "+options)
		out, errout = p.table(strings.Contains(options, "table -x"))
	case m != nil && m[1] == "qselect" && p.torque && strings.Contains(m[2], "-tc"):
		errout, exit = "usage: qselect [-A account_string]", 2
	case m != nil && m[1] == "qselect":
		p.ran = append(p.ran, m[0])
		out = p.qselect(m[2])
	case m != nil && m[1] == "qdel":
		p.connect(1)
	case m != nil:
		p.ran = append(p.ran, m[0])
		out, errout, exit = p.status(m[2])
	case strings.Contains(script, "grep -E '>|tee '"):
		p.scripts++
	case strings.Contains(script, "tunctl.since"):
		out = "\ntunctl.since\n" + p.since + "\n"
	}
	return jobtest.Answer(script, out, errout, exit), ctx.Err()
}

func (p *pbsServer) connect(n int) {
	for range n {
		p.connected = append(p.connected, time.Now())
	}
}

func (p *pbsServer) qsub(script string) string {
	p.connect(1)
	if p.cutAnswer {
		return "Killed"
	}
	mark := answerMark.FindStringSubmatch(script)[1]
	return fmt.Sprintf("\n%s exit\n0\n\n%s out\n900.srv\n", mark, mark)
}

func (p *pbsServer) table(history bool) (out, errout string) {
	p.connect(1)
	if history && p.forgets {
		return "", "qstat: PBS is not configured to maintain job history"
	}
	var b strings.Builder
	b.WriteString("\nsrv: \n\nJob ID                         Username        Queue           Jobname         SessID   NDS  TSK   Memory Time  S Time\n" +
		"------------------------------ --------------- --------------- --------------- -------- ---- ----- ------ ----- - -----\n")
	for _, r := range p.jobs {
		if r["array_id"] != "" || r.over() && !history {
			continue
		}
		name := r["Job_Name"]
		if len(name) > 15 {
			name = name[:14] + "*"
		}
		host := r["exec_host"]
		if host == "" {
			host = " -- "
		}
		fmt.Fprintf(&b, "%-30s %-15s %-15s %-15s %8s %4d %5d %6s 02:00 %s %5s %s\n", r["Job Id"], "mira", r["queue"], name, "--", 1, 1, "--", r["job_state"], cmp.Or(r["elapsed"], "--"), host)
		if r["comment"] != "" {
			fmt.Fprintf(&b, "   %s\n", r["comment"])
		}
	}
	return b.String(), ""
}

func (p *pbsServer) qselect(options string) string {
	p.connect(1)
	var ids []string
	m := nameOption.FindStringSubmatch(options)
	for _, r := range p.jobs {
		if m == nil || r["Job_Name"] == m[1] {
			ids = append(ids, r["Job Id"])
		}
	}
	return strings.Join(ids, "\n")
}

func (p *pbsServer) status(words string) (out, errout string, exit int) {
	ids := quotedWord.FindAllStringSubmatch(words, -1)
	p.connect(len(ids))
	history := strings.Contains(words, "-x ")
	switch {
	case p.mute != "" && ids[0][1] == p.mute:
		return "", "qstat: internal error", 1
	case history && p.torque:
		return "<Data><Job></Job></Data>", "", 0
	case history && p.forgets:
		return "", "qstat: PBS is not configured to maintain job history " + ids[0][1], 0
	}
	var b strings.Builder
	for _, id := range ids {
		found := false
		for _, r := range p.jobs {
			task := strings.Contains(words, "-t ") && r["array_id"] == id[1]
			if r["Job Id"] != id[1] && !task || r.over() && (p.forgets || !history) {
				continue
			}
			found = true
			b.WriteString(r.printed())
		}
		if !found {
			errout, exit = errout+"qstat: Unknown Job Id "+id[1]+"\n", 153
		}
	}
	return b.String(), errout, exit
}

func (r pbsJob) printed() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Job Id: %s\n", r["Job Id"])
	for name, value := range r {
		if name != "Job Id" {
			fmt.Fprintf(&b, "    %s = %s\n", name, value)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// watchPBS runs test in a synctest bubble with a Watcher of the server.
func watchPBS(t *testing.T, p *pbsServer, test func(t *testing.T, w *Watcher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, serving(t, NewWatcher(p, Options{Scheduler: pbsName})))
	})
}

// submit submits a job that a user waits for.
func submit(t *testing.T, w *Watcher, tag string) api.Job {
	t.Helper()
	s := order(tag)
	s.Awaited = true
	job, err := w.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// TestPBSRecentConnections: ended jobs take no more connections than they need.
func TestPBSRecentConnections(t *testing.T) {
	for name, tt := range map[string]struct {
		state         string
		forgets, told bool // there is no history; that is known
		ended, want   int  // jobs, connections for a list with ended jobs
	}{
		"an ended job":            {"F", false, false, 1, 3},
		"no ended job":            {"R", false, false, 0, 2},
		"no history":              {"R", true, false, 0, 2},
		"no history, as is known": {"R", true, true, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pbsServer{forgets: tt.forgets}
			watchPBS(t, p, func(t *testing.T, w *Watcher) {
				p.add("7.srv", "notebook", tt.state)
				if tt.told {
					if _, _, err := w.Detail(t.Context(), "7.srv"); err != nil {
						t.Fatal(err)
					}
				}
				before := len(p.connections())
				_, err := w.Jobs(t.Context())
				ended, err2 := w.Recent(t.Context())
				if got := len(p.connections()) - before; err != nil || err2 != nil || len(ended) != tt.ended || got != tt.want {
					t.Errorf("%d ended jobs, %v, %v, over %d connections", len(ended), err, err2, got)
				}
			})
		})
	}
}

// TestPBSConnections: a server with 500 jobs is asked over two connections a round.
func TestPBSConnections(t *testing.T) {
	for _, watched := range []int{1, 2, 3, 7} {
		t.Run(fmt.Sprintf("%d watched", watched), func(t *testing.T) {
			p := &pbsServer{}
			watchPBS(t, p, func(t *testing.T, w *Watcher) {
				for i := range 500 {
					p.add(fmt.Sprintf("%d.srv", 100+i), fmt.Sprintf("batch%d", i), "Q")
				}
				var watches []*Watch
				for i := range watched {
					id := fmt.Sprintf("%d.srv", 1000+i)
					p.add(id, fmt.Sprintf("notebook%d", i), "R")
					watches = append(watches, w.Watch(id))
				}
				time.Sleep(3 * time.Minute)
				for _, x := range watches {
					job := x.Job()
					if job.State != api.JobRunning || job.Node != "e12" || job.Log == "" || job.Script != "" || job.Submitted.IsZero() {
						t.Errorf("the job is %+v", job)
					}
					x.Close()
				}
				if got := p.mostWithin(remote.DefaultLimits().QueryMin); got > remote.DefaultLimits().Connections {
					t.Errorf("%d connections in one round", got)
				}
				if got := len(p.connections()); got > 2*(watched+4) {
					t.Errorf("%d connections in three minutes", got)
				}
				if p.scripts > watched {
					t.Errorf("the scripts were read %d times", p.scripts)
				}

				before := len(p.connections())
				jobs, err := w.Jobs(t.Context())
				if err != nil || len(jobs) != 500+watched || len(p.connections())-before > 1 {
					t.Errorf("%d jobs, %v, over %d connections", len(jobs), err, len(p.connections())-before)
				}
				time.Sleep(time.Minute)
				before = len(p.connections())
				job, found, err := w.Find(t.Context(), Query{Name: "notebook0"})
				if err != nil || !found || job.ID != "1000.srv" || job.Log == "" || len(p.connections())-before > 2 {
					t.Errorf("found %+v, %v, %v, over %d connections", job, found, err, len(p.connections())-before)
				}
				before = len(p.connections())
				if _, err := w.Recent(t.Context()); err != nil || len(p.connections())-before > 2 {
					t.Errorf("the ended jobs: %v, over %d connections", err, len(p.connections())-before)
				}
			})
		})
	}
}

// TestPBSFirstMinute: to find a job with the name, to submit, to
// read the new job, to see whether it started at once, and to see it start.
func TestPBSFirstMinute(t *testing.T) {
	p := &pbsServer{}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		if _, found, err := w.Find(t.Context(), Query{Name: "notebook"}); found || err != nil {
			t.Fatalf("found: %v, %v", found, err)
		}
		r := p.add("900.srv", "notebook", "Q")
		job := submit(t, w, "t")
		x := w.Watch(job.ID)
		defer x.Close()
		time.Sleep(5 * time.Second)
		p.set(r, "R")
		w.QuerySoon() // its log is there
		time.Sleep(10 * time.Second)
		w.QuerySoon() // it serves
		time.Sleep(45 * time.Second)
		if x.Job().State != api.JobRunning {
			t.Errorf("the job is %+v", x.Job())
		}
		if got := len(p.connections()); got > 6 {
			t.Errorf("%d connections", got)
		}
	})
}

// TestEarlyQuery: a job that a user waits for is queried once soon after its submission.
func TestEarlyQuery(t *testing.T) {
	tests := map[string]struct {
		awaited bool
		after   time.Duration // Limits.QueryAfterSubmit
		starts  time.Duration // after the submission
		within  time.Duration // when its start is seen
		queries int           // in the first minute after the submission
	}{
		"starts at once":            {true, 2500 * time.Millisecond, time.Second, 3100 * time.Millisecond, 1},
		"starts a little later":     {true, 2500 * time.Millisecond, 5 * time.Second, 13200 * time.Millisecond, 2},
		"does not start":            {true, 2500 * time.Millisecond, time.Hour, 0, 2},
		"nobody waits":              {false, 2500 * time.Millisecond, time.Second, 10200 * time.Millisecond, 1},
		"the site wants no such":    {true, 0, time.Second, 10200 * time.Millisecond, 1},
		"the site wants none, late": {true, 0, time.Hour, 0, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := remote.DefaultLimits()
				limits.QueryAfterSubmit = tt.after
				p := &pbsServer{}
				w := serving(t, NewWatcher(p, Options{Scheduler: pbsName, Limits: limits}))
				if _, found, err := w.Find(t.Context(), Query{Name: "notebook"}); found || err != nil {
					t.Fatalf("found: %v, %v", found, err)
				}
				r := p.add("900.srv", "notebook", "Q")
				job, err := w.Submit(t.Context(), Submission{Tag: "t", Content: []byte("#!/bin/sh\n"), Base: "x.sh", Awaited: tt.awaited})
				if err != nil {
					t.Fatal(err)
				}
				x := w.Watch(job.ID)
				defer x.Close()
				submitted, before := time.Now(), len(p.connections())
				time.AfterFunc(tt.starts, func() { p.set(r, "R") })
				if tt.within > 0 {
					for x.Job().State != api.JobRunning {
						<-x.C()
					}
					if took := time.Since(submitted); took > tt.within {
						t.Errorf("its start was seen after %s", took)
					}
				}
				time.Sleep(time.Until(submitted.Add(59 * time.Second)))
				if got := len(p.connections()) - before; got != tt.queries {
					t.Errorf("%d queries in the first minute", got)
				}
				time.Sleep(time.Hour) // the start, for the bubble to end
			})
		})
	}
}

// TestEarlyQueryUnwatched: an early query that nobody watched for is not made later.
func TestEarlyQueryUnwatched(t *testing.T) {
	p := &pbsServer{}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		p.add("900.srv", "notebook", "Q")
		job := submit(t, w, "t")
		time.Sleep(time.Second)
		if _, err := w.Jobs(t.Context()); err != nil { // the user asks
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		before := len(p.connections())
		defer w.Watch(job.ID).Close()
		time.Sleep(5 * time.Second)
		if got := len(p.connections()) - before; got > 0 {
			t.Errorf("%d queries right after another", got)
		}
	})
}

// TestEarlyQueryShared: ten submissions together share one early query.
func TestEarlyQueryShared(t *testing.T) {
	p := &pbsServer{}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		for i := range 10 {
			p.add(fmt.Sprintf("%d.srv", 900+i), "notebook", "Q")
			defer w.Watch(submit(t, w, fmt.Sprintf("t%d", i)).ID).Close()
		}
		before := len(p.connections())
		time.Sleep(4 * time.Second)
		if got := len(p.connections()) - before; got > remote.DefaultLimits().Connections {
			t.Errorf("%d connections", got)
		}
	})
}

// TestPBSWithoutHistory: a job is seen at a server that keeps no history.
func TestPBSWithoutHistory(t *testing.T) {
	for name, p := range map[string]*pbsServer{"OpenPBS": {forgets: true}, "Torque": {torque: true}} {
		t.Run(name, func(t *testing.T) {
			watchPBS(t, p, func(t *testing.T, w *Watcher) {
				p.add("7.srv", "notebook", "R", "Resource_List.walltime", "02:00:00")
				x := w.Watch("7.srv")
				defer x.Close()
				time.Sleep(5 * time.Minute)
				if job := x.Job(); job.State != api.JobRunning || job.Node != "e12" || job.Log != "/home/mira/notebook.log" {
					t.Errorf("the job is %+v", job)
				}
				if got := p.commands("qstat -x"); got != 1 {
					t.Errorf("it was asked for its history %d times", got)
				}
			})
		})
	}
}

// TestPBSWithoutHistoryEnd: what a server without history cannot tell is said.
func TestPBSWithoutHistoryEnd(t *testing.T) {
	for name, c := range map[string]struct {
		ran  bool
		left time.Duration // until it ends by itself
		want api.JobState
	}{
		"it ran":             {true, time.Minute, api.JobFinished},
		"it was not seen":    {false, time.Minute, api.JobFinished},
		"its walltime is up": {true, 2*time.Hour + time.Minute, api.JobTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pbsServer{forgets: true}
			watchPBS(t, p, func(t *testing.T, w *Watcher) {
				r := p.add("7.srv", "notebook", "Q", "Resource_List.walltime", "02:00:00")
				x := w.Watch("7.srv")
				defer x.Close()
				time.Sleep(2 * time.Minute)
				if c.ran {
					p.set(r, "R")
				}
				time.Sleep(c.left + time.Minute)
				p.set(r, "F", "Exit_status", "1")
				time.Sleep(5 * time.Minute) // two looks
				job := x.Job()
				if job.State != c.want || !strings.Contains(job.Hint, "keeps no job history") {
					t.Errorf("the job is %s, %q", job.State, job.Hint)
				}
			})
		})
	}
}

// TestPBSRejectedByTheRoute: a job that no queue accepts says so within two rounds.
func TestPBSRejectedByTheRoute(t *testing.T) {
	for name, c := range map[string]struct {
		forgets bool
		others  int // sessions
	}{"with a history": {}, "without": {forgets: true}, "beside many sessions": {others: 14}, "beside many sessions, without": {true, 14}} {
		t.Run(name, func(t *testing.T) {
			p := &pbsServer{forgets: c.forgets}
			watchPBS(t, p, func(t *testing.T, w *Watcher) {
				for i := range c.others {
					id := fmt.Sprintf("%d.srv", 700+i)
					p.add(id, "other", "R")
					defer w.Watch(id).Close()
				}
				if c.others > 0 {
					time.Sleep(20 * time.Minute)
				}
				job := submit(t, w, "t")
				x := w.Watch(job.ID)
				defer x.Close()
				time.Sleep(15 * time.Second)
				if job := x.Job(); job.State != api.JobQueued || !strings.Contains(job.Hint, "does not know the job yet; if that stays, no queue accepts the job") {
					t.Errorf("at first: %s, %q", job.State, job.Hint)
				}
				time.Sleep(75 * time.Second)
				if job := x.Job(); job.State != api.JobNeverRan || !strings.HasPrefix(job.Hint, "no queue accepts the job") {
					t.Errorf("in the end: %s, %q", job.State, job.Hint)
				}
			})
		})
	}
}

// TestPBSCachedList: a job that a cache does not have yet is not given up.
func TestPBSCachedList(t *testing.T) {
	p := &pbsServer{}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		job := submit(t, w, "t")
		x := w.Watch(job.ID)
		defer x.Close()
		time.Sleep(time.Minute)
		p.add(job.ID, "x", "Q", "comment", "Not Running: Not enough free nodes")
		time.Sleep(time.Minute)
		if job := x.Job(); job.State != api.JobQueued || job.Hint != "waiting for free nodes" {
			t.Errorf("the job is %s, %q", job.State, job.Hint)
		}
	})
}

// TestPBSHistorySwitchedOn: history that is switched on later is used.
func TestPBSHistorySwitchedOn(t *testing.T) {
	p := &pbsServer{forgets: true}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		p.add("7.srv", "notebook", "R")
		if _, found, err := w.Detail(t.Context(), "7.srv"); !found || err != nil {
			t.Fatalf("%v, %v", found, err)
		}
		before := p.commands("-x")
		if _, found, err := w.Detail(t.Context(), "7.srv"); !found || err != nil || p.commands("-x") != before {
			t.Errorf("nothing was learned: %v, %v", found, err)
		}
		w.host.sh.Runner = useX{p}
		for range 2 {
			if _, found, err := w.Detail(t.Context(), "7.srv"); !found || err != nil || p.commands("-x") == before {
				t.Errorf("%v, %v", found, err)
			}
		}
	})
}

// useX is a server that has a history and says so.
type useX struct{ server *pbsServer }

func (u useX) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	u.server.mu.Lock()
	u.server.forgets = false
	u.server.mu.Unlock()
	if !strings.Contains(string(stdin), "-x ") {
		return jobtest.Answer(string(stdin), "", "qstat: 7.srv Job has finished, use -x or -H to obtain historical job information", 35), nil
	}
	return u.server.Run(ctx, command, stdin)
}

func TestCancelledJob(t *testing.T) {
	p := &pbsServer{}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		r := p.add("7.srv", "notebook", "R")
		p.add("8.srv", "notebook", "R", "comment", "Job run at Mon Mar 02 at 08:00 on (e12:ncpus=8) and terminated by root@srv")
		if err := w.Cancel(t.Context(), "7.srv"); err != nil {
			t.Fatal(err)
		}
		if job, found, err := w.Find(t.Context(), Query{Name: "notebook"}); found || err != nil {
			t.Errorf("adopted %+v, %v", job, err)
		}
		if job, found, err := w.Find(t.Context(), Query{ID: "7.srv"}); !found || err != nil || job.State != api.JobCompleting {
			t.Errorf("found %+v, %v, %v", job, found, err)
		}
		p.set(r, "F", "Exit_status", "271", "substate", "91")
		if job, found, err := w.Find(t.Context(), Query{ID: "7.srv"}); !found || err != nil || job.State != api.JobCancelled {
			t.Errorf("found %+v, %v, %v", job, found, err)
		}
	})
}

// TestPBSArray: the task of an array that runs is served.
func TestPBSArray(t *testing.T) {
	p := &pbsServer{}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		p.add("40[].srv", "chain", "B", "Submit_arguments", "-J 1-2%1 chain.sh", "Output_Path", "login1:/home/mira/chain.^array_index^")
		task := func(n, state string, more ...string) pbsJob {
			return p.add("40["+n+"].srv", "chain", state, append([]string{
				"array_id", "40[].srv", "array_index", n, "Output_Path", "login1:/home/mira/chain." + n,
			}, more...)...)
		}
		first, second := task("1", "R"), task("2", "Q")
		x := w.Watch("40[].srv")
		defer x.Close()
		time.Sleep(2 * time.Minute)
		want := api.Job{ID: "40[].srv", State: api.JobRunning, Node: "e12", Log: "/home/mira/chain.1", Script: "/home/mira/work/chain.sh"}
		same := func(job api.Job) bool {
			return job.ID == want.ID && job.State == want.State && job.Node == want.Node && job.Log == want.Log && job.Script == want.Script
		}
		if job := x.Job(); !same(job) {
			t.Errorf("while task 1 runs: %+v", job)
		}
		p.set(first, "X")
		time.Sleep(2 * time.Minute)
		if job := x.Job(); job.State != api.JobQueued {
			t.Errorf("between the tasks: %+v", job)
		}
		p.set(second, "R", "exec_host", "e13/0")
		time.Sleep(2 * time.Minute)
		want.Node, want.Log = "e13", "/home/mira/chain.2"
		if job := x.Job(); !same(job) {
			t.Errorf("while task 2 runs: %+v", job)
		}
		job, found, err := w.Find(t.Context(), Query{ID: "40[2].srv"})
		if err != nil || !found || job.Script != want.Script || job.ID != "40[2].srv" {
			t.Errorf("the task itself: %+v, %v, %v", job, found, err)
		}
	})
}

// TestPBSCutName: a job is found by a name that PBS cuts.
func TestPBSCutName(t *testing.T) {
	const long = "jupyter-aspire2a-gpu"
	for name, stored := range map[string]string{"by the table": long, "by the server": long[:15]} {
		t.Run(name, func(t *testing.T) {
			p := &pbsServer{}
			watchPBS(t, p, func(t *testing.T, w *Watcher) {
				p.add("7.srv", stored, "R")
				p.add("8.srv", "jupyter-aspire2b-gpu", "R")
				job, found, err := w.Find(t.Context(), Query{Name: long})
				if err != nil || !found || job.ID != "7.srv" || job.Node != "e12" {
					t.Errorf("%+v, %v, %v", job, found, err)
				}
				if job, found, err := w.Find(t.Context(), Query{Name: "jupyter-aspire"}); found || err != nil {
					t.Errorf("another name found %+v, %v", job, err)
				}
			})
		})
	}
}

// TestPBSSuspended: a suspended job says so.
func TestPBSSuspended(t *testing.T) {
	p := &pbsServer{}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		r := p.add("7.srv", "notebook", "R")
		x := w.Watch("7.srv")
		defer x.Close()
		time.Sleep(time.Minute)
		p.set(r, "S")
		time.Sleep(2 * time.Minute)
		if job := x.Job(); job.State != api.JobRunning || job.Reason != api.ReasonSuspended || !strings.Contains(job.Hint, "suspended") {
			t.Errorf("the job is %+v", job)
		}
	})
}

// TestPBSTagAmongTheNewest: a job whose answer was lost is found among the newest.
func TestPBSTagAmongTheNewest(t *testing.T) {
	for name, p := range map[string]*pbsServer{"OpenPBS": {}, "Torque": {torque: true}} {
		t.Run(name, func(t *testing.T) {
			watchPBS(t, p, func(t *testing.T, w *Watcher) {
				for i := range 50 {
					p.add(fmt.Sprintf("%d.srv", 100+i), "batch", "Q", "Submit_arguments", "batch.sh")
				}
				p.add("150.srv", "notebook", "R", "Submit_arguments", "-k oed /home/mira/.tunctl/lost-1/x.sh")
				p.add("151.srv", "batch", "Q", "Submit_arguments", "batch.sh")
				if job, found, err := w.Find(t.Context(), Query{Tag: "lost-1"}); found || err != nil || len(p.connections()) > 0 {
					t.Errorf("what was not submitted was looked for: %+v, %v, %d connections", job, err, len(p.connections()))
				}
				p.since = "202603020800"
				job, found, err := w.Find(t.Context(), Query{Tag: "lost-1"})
				if err != nil || !found || job.ID != "150.srv" {
					t.Errorf("%+v, %v, %v", job, found, err)
				}
				if got := len(p.connections()); got > 5 {
					t.Errorf("%d connections", got)
				}
			})
		})
	}
}

// TestPBSTagBelowNewerJobs: a job whose answer was lost is found below many newer ones.
func TestPBSTagBelowNewerJobs(t *testing.T) {
	p := &pbsServer{since: "202603020800"}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		p.add("150.srv", "notebook", "R", "Submit_arguments", "-k oed /home/mira/.tunctl/lost-1/x.sh")
		for i := range 5 {
			p.add(fmt.Sprintf("%d.srv", 151+i), "batch", "Q", "Submit_arguments", "batch.sh")
		}
		for i := range 2 {
			if job, _, err := w.FindTag(t.Context(), Query{Tag: "lost-1"}); !errors.Is(err, ErrIncomplete) {
				t.Errorf("query %d: %+v, %v", i, job, err)
			}
		}
		if job, found, err := w.FindTag(t.Context(), Query{Tag: "lost-1"}); err != nil || !found || job.ID != "150.srv" {
			t.Errorf("%+v, %v, %v", job, found, err)
		}
		if _, found, err := w.Find(t.Context(), Query{Tag: "never-2"}); found || err != nil {
			t.Errorf("an up that only asks once: %v, %v", found, err)
		}
		for range 2 {
			_, _, _ = w.FindTag(t.Context(), Query{Tag: "never-2"})
		}
		before := len(p.connections())
		if _, found, err := w.FindTag(t.Context(), Query{Tag: "never-2"}); found || err != nil || len(p.connections())-before > 1 {
			t.Errorf("once all were looked at: %v, %v, %d connections", found, err, len(p.connections())-before)
		}
	})
}

// TestDetailTurns: a job without detail holds no other up.
func TestDetailTurns(t *testing.T) {
	p := &pbsServer{mute: "1.srv"}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		var watches []*Watch
		for i := range 4 {
			id := fmt.Sprintf("%d.srv", i+1)
			p.add(id, "notebook"+id, "R")
			watches = append(watches, w.Watch(id))
		}
		time.Sleep(time.Hour)
		for _, x := range watches {
			job := x.Job()
			if job.State != api.JobRunning || (job.Log == "") != (x.id == p.mute) {
				t.Errorf("the job is %+v", job)
			}
			if n := p.commands("'" + x.id + "'"); n < 10 || n > 30 {
				t.Errorf("job %s was asked about %d times in an hour", x.id, n)
			}
			x.Close()
		}
		if n := len(p.connections()); n > 2*70 {
			t.Errorf("%d connections in an hour", n)
		}
	})
}

// TestDetailTurnOfMissingJob: a missing job has its turn.
func TestDetailTurnOfMissingJob(t *testing.T) {
	p := &pbsServer{}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		p.add("30.srv", "nb", "R", "array_id", "29[].srv") // of which only qstat -f tells
		p.add("31.srv", "nb", "Q")
		p.add("32.srv", "nb", "R")
		for _, id := range []string{"30.srv", "31.srv"} {
			defer w.Watch(id).Close()
		}
		gone := w.Watch("32.srv")
		defer gone.Close()
		time.Sleep(10 * time.Minute)
		p.mu.Lock()
		p.jobs = p.jobs[:2]
		p.mu.Unlock()
		time.Sleep(5 * time.Minute)
		if job := gone.Job(); !job.State.Ended() {
			t.Errorf("after it was gone for five minutes, the job is %+v", job)
		}
	})
}

func TestSubmitAnswerWithoutItsFrame(t *testing.T) {
	watchPBS(t, &pbsServer{cutAnswer: true}, func(t *testing.T, w *Watcher) {
		_, err := w.Submit(t.Context(), order("t"))
		if _, doubt := errors.AsType[*DoubtError](err); !doubt {
			t.Errorf("a refusal: %v", err)
		}
	})
}

func TestRerun(t *testing.T) {
	p := &pbsServer{}
	watchPBS(t, p, func(t *testing.T, w *Watcher) {
		for i := range 15 {
			id := fmt.Sprintf("%d.srv", 20+i)
			p.add(id, "nb", "R")
			defer w.Watch(id).Close()
		}
		again := p.add("50.srv", "nb", "R", "Resource_List.walltime", "02:00:00")
		x := w.Watch("50.srv")
		defer x.Close()
		for minutes := range 30 {
			p.set(again, "R", "elapsed", fmt.Sprintf("00:%02d", minutes))
			time.Sleep(time.Minute)
		}
		first := x.Job().End
		now := time.Now()
		p.set(again, "R", "stime", now.UTC().Format(time.ANSIC), "elapsed", "00:00") // on the same node, between two looks
		time.Sleep(3 * time.Minute)
		if end := x.Job().End; first.IsZero() || end.Sub(now.Add(2*time.Hour)).Abs() > time.Minute {
			t.Errorf("it ended at %v, and ends at %v after it was run again at %v", first, end, now)
		}
	})
}
