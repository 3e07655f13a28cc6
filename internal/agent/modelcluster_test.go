package agent

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// modelCluster is a scheduler in memory that answers the scripts of jobwatch, by a clock that
// may differ from the laptops'.
type modelCluster struct {
	limit   time.Duration // of its jobs
	history bool          // it tells how jobs ended
	dialect modelDialect
	checks  func(tag *modelTag) // is called when a submit command begins
	caller  *modelLaptop        // whose script is answered

	mu      sync.Mutex
	skew    time.Duration // how far its clock is ahead
	numbers int
	jobs    []*modelJob
	tags    map[string]*modelTag
	next    []modelSubmit // how the next submit commands behave; then they succeed at once
	queue   time.Duration // how long a job waits
	lists   []time.Time   // when all jobs were listed
	unknown []string      // scripts that it cannot run
	lie     modelLie      // how it answers until then
	lieEnds time.Time
	denied  bool // it has said of live jobs that there are none

	slowCancel time.Duration // how long a cancel takes
	slowEnd    time.Duration // of a job that is cancelled
}

// modelAsk is a kind of query.
type modelAsk int

const (
	askOther modelAsk = iota
	askList
	askJob
	askAccount
	askCancel
)

// modelDialect is how one scheduler is asked and answers.
type modelDialect interface {
	name() string
	// answer runs a script, under the lock; false if it is not one of the dialect's.
	answer(c *modelCluster, script string) (out, errOut string, exit int, ok bool)
	ask(script string) modelAsk
	// noJob is the answer to a query that finds no job.
	noJob(ask modelAsk, script string) (out, errOut string, exit int)
	// id is the whole id of a job.
	id(number int) string
	// lost, refused and silent are what it prints when the answer to a submission is lost, when it
	// refuses a job, and when it does not respond.
	lost() string
	refused() string
	silent() string
	// options are the lines of a job script that ask for an hour on one node.
	options() string
}

// modelSubmit is how a submit command behaves.
type modelSubmit struct {
	name     string
	answers  time.Duration // when the command ends
	lost     bool          // without the id
	refused  bool
	appears  time.Duration // when the job is made; negative: never
	cut      bool          // the connection is lost once the job is made
	notBegun bool          // the connection is lost before the command begins
	fails    bool          // the job has ended before the command has
	printed  bool          // the command prints the id, and fails
	dies     int           // the exit status with which the shell ends that waits for the answer
	unframed bool          // the answer has no frame
	crash    bool          // the agent ends just then, with the state file of that moment
}

var modelSubmits = []modelSubmit{
	{name: "is slow", answers: 8 * time.Second, appears: 8 * time.Second},
	{name: "hangs, and makes the job", answers: 2 * time.Minute, appears: 100 * time.Second, lost: true},
	{name: "hangs, and makes none", answers: 2 * time.Minute, appears: -1, lost: true},
	{name: "times out, and the job comes later", lost: true, appears: 90 * time.Second},
	{name: "times out, and the job comes much later", lost: true, appears: 8 * time.Minute},
	{name: "times out, and makes none", lost: true, appears: -1},
	{name: "is refused", refused: true},
	{name: "loses its answer", cut: true},
	{name: "answers late into a lost connection", cut: true, answers: 20 * time.Second, appears: 20 * time.Second},
	{name: "never begins", notBegun: true},
	{name: "makes a job that fails before the answer", answers: 3 * time.Second, fails: true},
	{name: "is waited for by a shell that is killed", dies: 137, appears: 2 * time.Second, answers: 2 * time.Second},
	{name: "is waited for by a shell that cannot fork", dies: 2, appears: 30 * time.Second, answers: 30 * time.Second},
	{name: "is waited for by a shell that ends with 254", dies: 254, appears: 8 * time.Minute, lost: true},
	{name: "does not reach the server", dies: 12, appears: -1},
	{name: "prints the number and fails", printed: true},
	{name: "is killed after the number", printed: true, answers: 12 * time.Second},
	{name: "is answered without a frame", unframed: true},
	{name: "begins, and the agent crashes", crash: true, cut: true},
	{name: "does not begin before the agent crashes", crash: true, notBegun: true},
}

// modelLie is how the scheduler answers for a while.
type modelLie struct {
	name  string
	asks  []modelAsk
	how   string // "none": there is no such job; "silent": it does not respond; "slow"; "refuses"
	times []time.Duration
}

var (
	modelShort = []time.Duration{30 * time.Second, 50 * time.Second}
	modelLong  = []time.Duration{time.Minute, 6 * time.Minute, 30 * time.Minute}
	modelLies  = []modelLie{
		{"lists no job", []modelAsk{askList}, "none", modelShort},
		{"knows no job", []modelAsk{askJob}, "none", modelShort},
		{"lists and knows no job", []modelAsk{askList, askJob}, "none", modelShort},
		{"lists, knows and accounts for no job", []modelAsk{askList, askJob, askAccount}, "none", modelShort},
		{"is silent", []modelAsk{askList, askJob, askAccount, askCancel}, "silent", modelLong},
		{"is silent about single jobs", []modelAsk{askJob}, "silent", modelLong},
		{"is slow", []modelAsk{askList, askJob, askCancel}, "slow", modelLong},
		{"has no accounting", []modelAsk{askAccount}, "silent", modelLong},
		{"accounts late", []modelAsk{askAccount}, "none", modelLong},
		{"cancels nothing", []modelAsk{askCancel}, "refuses", modelLong},
	}
)

// denies reports whether the lie is that a live job does not exist.
func (l modelLie) denies() bool { return l.how == "none" && l.asks[0] != askAccount }

// modelTag is the folder of a submission.
type modelTag struct {
	tag     string
	session string
	// computer is the name of the laptop as tunctl has it.
	computer string
	laptop   *modelLaptop
	at       time.Time
	answers  time.Time
	out      string
	errOut   string
	exit     int
	job      *modelJob
	how      modelSubmit
	told     bool      // `tunctl submit` has said its number
	running  int       // how many scripts wait for the answer
	waited   time.Time // when the last one ended
}

// modelJob is a job. Its times are by the laptops' clock.
type modelJob struct {
	id, name, script string
	node             string        // that it runs on; "": nothing looks for a server
	tag              *modelTag     // nil: the user's own
	submitted        time.Time     // when it appears
	drift            time.Duration // of the clock since then
	start            time.Time
	limit            time.Duration
	tasks            int // of an array; each runs after the one before
	restarts         int
	ended            time.Time    // before its limit; zero: not
	how              string       // it ended then
	endedBy          *modelLaptop // whose tunctl has cancelled it
	extended         time.Time    // when; zero: not
	requeued         time.Time    // likewise, last
	attached         bool         // the user has opened it
}

// on is where it runs now.
func (j *modelJob) on(now time.Time) string {
	if j.state(now) != "RUNNING" {
		return ""
	}
	return j.node
}

// log is the file that it writes to, if something looks for a server there.
func (j *modelJob) log() string {
	if j.node == "" {
		return ""
	}
	return "/home/alice/" + j.name + "." + j.id + ".log"
}

func (j *modelJob) end() time.Time {
	if !j.ended.IsZero() {
		return j.ended
	}
	return j.start.Add(time.Duration(max(1, j.tasks)) * j.limit)
}

// stamp is when it was submitted, by the scheduler's record: a clock that jumps later does not change that.
func (j *modelJob) stamp() time.Time { return j.submitted.Add(j.drift) }

func (j *modelJob) exists(now time.Time) bool { return !now.Before(j.submitted) }
func (j *modelJob) live(now time.Time) bool   { return j.exists(now) && now.Before(j.end()) }

// mayRun reports whether it waits or runs, or will.
func (j *modelJob) mayRun(now time.Time) bool { return now.Before(j.end()) }

// state is in Slurm's words.
func (j *modelJob) state(now time.Time) string {
	switch {
	case !j.live(now) && j.ended.IsZero():
		return "TIMEOUT"
	case !j.live(now):
		return j.how
	case !j.ended.IsZero():
		return "COMPLETING"
	case now.Before(j.start):
		return "PENDING"
	}
	return "RUNNING"
}

func (c *modelCluster) find(id string) *modelJob {
	for _, j := range slices.Backward(c.jobs) { // the newest with that number
		if j.id == id && j.exists(time.Now()) {
			return j
		}
	}
	return nil
}

// set changes the cluster.
func (c *modelCluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *modelCluster) setSlowCancel(d time.Duration) { c.set(func() { c.slowCancel = d }) }

// unix writes a time by the cluster's clock.
func (c *modelCluster) unix(t time.Time) string { return strconv.FormatInt(t.Add(c.skew).Unix(), 10) }

func (c *modelCluster) end(j *modelJob, how string, by *modelLaptop) {
	if now := time.Now(); j.live(now) && j.ended.IsZero() {
		j.ended, j.how, j.endedBy = now.Add(c.slowEnd), how, by
	}
}

func (c *modelCluster) extend(id, hours, minutes string) bool {
	j := c.find(id)
	if j == nil || !j.live(time.Now()) {
		return false
	}
	h, _ := strconv.Atoi(hours)
	m, _ := strconv.Atoi(minutes)
	j.limit, j.extended = time.Duration(h*60+m)*time.Minute, time.Now()
	return true
}

// run answers a script that a laptop sends.
func (c *modelCluster) run(l *modelLaptop, script string) (out, errOut string, exit int) {
	if strings.Contains(script, "tunctl_dir=$tunctl_root/") {
		return c.submit(l, script)
	}
	ask := c.dialect.ask(script)
	c.mu.Lock()
	how, slow := "", time.Duration(0)
	if time.Now().Before(c.lieEnds) && slices.Contains(c.lie.asks, ask) {
		how = c.lie.how
	}
	if ask == askCancel {
		slow = c.slowCancel
	}
	c.mu.Unlock()
	switch how {
	case "none":
		out, errOut, exit := c.dialect.noJob(ask, script)
		return out, errOut, exit
	case "silent":
		return "", c.dialect.silent(), 1
	case "refuses":
		return "", "error: Access/permission denied", 1
	case "slow":
		slow = 40 * time.Second
	}
	time.Sleep(slow)
	c.mu.Lock()
	defer c.mu.Unlock()
	clock := ""
	if strings.Contains(script, "tunctl.clock") {
		clock = "tunctl.clock " + c.unix(time.Now()) + "\n"
	}
	if m := modelFolder.FindStringSubmatch(script); m != nil && !strings.Contains(script, "tunctl.since") {
		if tag := c.tags[m[1]]; tag != nil && !time.Now().Before(tag.answers) {
			return tag.out, "", 0
		}
		return "", "", 0
	}
	if m := modelFolders.FindStringSubmatch(script); m != nil {
		return c.folders(m[1]), "", 0
	}
	if strings.Contains(script, "grep -E '>|tee '") { // what the job script redirects
		return "", "", 0
	}
	if modelReads.MatchString(script) { // the job script
		return "#!/bin/sh\n" + c.dialect.options() + "\nsleep 1\n", "", 0
	}
	c.caller = l
	out, errOut, exit, ok := c.dialect.answer(c, script)
	if !ok {
		c.unknown = append(c.unknown, script)
		return "", "unknown", 1
	}
	return clock + out, errOut, exit
}

var (
	modelDir     = regexp.MustCompile(`tunctl_dir=\$tunctl_root/'?([\w.-]+)`)
	modelSection = regexp.MustCompile(`printf '%s\\n' '?([\w.-]*)'? ?'?([^'>]*)'? >"\$tunctl_dir/tunctl\.session"`)
	modelFolders = regexp.MustCompile(`(?s)\*/tunctl\.session; do.*?printf '\\n%s %s\\n' (tunctl-\w+)`)
	modelFolder  = regexp.MustCompile(`cat "\$HOME"/\.tunctl/'?([\w.-]+?)'?/tunctl\.out`)
	modelReads   = regexp.MustCompile(`head -c \d+ <`)
	modelMark    = regexp.MustCompile(`'\\n%s %s\\n' (tunctl-\w+) "\$tunctl_i"`)
)

// submit runs the submit script: once for each tag, and it waits for the answer for 18 s. An exit
// status below zero stands for an answer without its frame.
func (c *modelCluster) submit(l *modelLaptop, script string) (out, errOut string, exit int) {
	name := modelDir.FindStringSubmatch(script)[1]
	c.mu.Lock()
	tag := c.tags[name]
	first := tag == nil
	how := modelSubmit{name: "at once"}
	if first && len(c.next) > 0 {
		how, c.next = c.next[0], c.next[1:]
	}
	if first && how.dies == 12 { // its lock is removed: the tag can be used again
		c.mu.Unlock()
		return "", c.dialect.silent(), how.dies
	}
	if first && !how.notBegun {
		of := modelSection.FindStringSubmatch(script)
		tag = c.create(l, name, of[1], how)
		tag.computer = of[2]
	}
	if how.crash {
		l.die()
	}
	if how.notBegun || how.cut {
		c.mu.Unlock()
		l.host.restart()
		if !how.crash {
			l.host.unreachable(nil)
		}
		return "", "", 1
	}
	if how.dies != 0 {
		defer c.mu.Unlock()
		return "", "Killed", how.dies
	}
	wait := time.Until(tag.answers)
	tag.running++
	c.mu.Unlock()
	time.Sleep(min(wait, 18*time.Second))
	c.mu.Lock()
	defer c.mu.Unlock()
	tag.running--
	tag.waited = time.Now()
	if wait > 18*time.Second {
		return "", "", 10
	}
	if how.unframed {
		return "Killed by the watchdog", "", -1
	}
	mark := modelMark.FindStringSubmatch(script)[1]
	return fmt.Sprintf("\n%s exit\n%d\n\n%s out\n%s\n\n%s err\n%s\n\n%s note\n", mark, tag.exit, mark, tag.out, mark, tag.errOut, mark), "", 0
}

// folders are what the submit scripts left on the host.
func (c *modelCluster) folders(mark string) (out string) {
	for _, name := range slices.Sorted(maps.Keys(c.tags)) {
		tag, exit, answer := c.tags[name], "", ""
		if !time.Now().Before(tag.answers) {
			exit, answer = strconv.Itoa(tag.exit), tag.out
		}
		out += fmt.Sprintf("\n%s %s\n%s\n%s\n\n%s %s/exit\n%s\n\n%[1]s %[2]s/out\n%[8]s\n", mark, name, tag.session, tag.computer, mark, name, exit, answer)
	}
	return out
}

func (c *modelCluster) create(l *modelLaptop, name, session string, how modelSubmit) *modelTag {
	now := time.Now()
	tag := &modelTag{tag: name, session: session, laptop: l, at: now, answers: now.Add(how.answers), how: how, waited: now}
	c.tags[name] = tag
	c.checks(tag)
	if how.appears >= 0 && !how.refused {
		c.numbers++
		tag.job = &modelJob{
			id: c.dialect.id(c.numbers), name: cmp.Or(session, "production"), script: "/home/alice/.tunctl/" + name + "/nb.sh", tag: tag,
			submitted: now.Add(how.appears), start: now.Add(how.appears + c.queue), limit: c.limit,
		}
		if session == modelArray && c.dialect.name() == "slurm" {
			tag.job.tasks = 2
		}
		c.jobs = append(c.jobs, tag.job)
	}
	if how.fails {
		tag.job.start, tag.job.ended, tag.job.how = now, now.Add(time.Second), "FAILED"
	}
	switch {
	case how.refused:
		tag.exit, tag.errOut = 1, c.dialect.refused()
	case how.lost:
		tag.exit, tag.errOut = 1, c.dialect.lost()
	default:
		tag.out = tag.job.id
	}
	if how.printed {
		tag.exit, tag.errOut = 1, "wrapper: cannot write /var/log/jobs: Read-only file system"
	}
	return tag
}
