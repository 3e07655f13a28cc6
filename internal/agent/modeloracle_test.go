package agent

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"tunctl/internal/action"
	"tunctl/internal/agent/ledger"
	"tunctl/internal/agent/session"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

// readings are what the user reads about a session, by what shows it. The tray and the dashboard have
// tests of their own that they show the lines of show.OtherJobs.
func readings(st api.Status, s api.Session, now time.Time) map[string]string {
	return map[string]string{
		"status":         show.Status(term.Layout{}, api.Status{Sessions: []api.Session{s}, Hosts: st.Hosts}, false, now),
		"status SESSION": show.SessionPage(term.Layout{}, s, now),
	}
}

// shownJobs are the jobs of a session as it is shown.
func shownJobs(s api.Session) []api.Job {
	jobs := slices.Clone(s.Others)
	for _, j := range []*api.Job{s.Job, s.Next} {
		if j != nil {
			jobs = append(jobs, *j)
		}
	}
	return jobs
}

func names(text, id string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(id) + `\b`).MatchString(text)
}

// mayAppear is what every text says of a submission whose result is not known.
const mayAppear = "may still appear"

// check compares what each laptop shows with what is true.
func (m *model) check(when string) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	now := time.Now()
	for _, l := range m.laptops {
		st := l.agent.server.status()
		for _, j := range m.cluster.jobs {
			m.checkShown(l, st, j, when, now)
		}
		for _, s := range st.Sessions {
			m.checkTrue(l, s, when, now)
		}
	}
	for _, j := range m.cluster.jobs {
		if j.tag == nil && j.endedBy != nil && !j.attached {
			m.wrong("%s: job %s of the person was cancelled", when, j.id)
		}
	}
	for _, script := range m.cluster.unknown {
		m.wrong("a script that the cluster does not know: %s", script)
	}
}

// checkShown checks that whoever reads what a laptop shows learns of a job that it has submitted,
// until the job has ended.
func (m *model) checkShown(l *modelLaptop, st api.Status, j *modelJob, when string, now time.Time) {
	of := modelHand
	if j.tag != nil {
		of = j.tag.session
		if of == "" { // `tunctl submit` has none
			of = j.tag.tag
		}
	}
	ours := j == l.hand || j.tag != nil && j.tag.laptop == l && !j.tag.told
	if !ours || !j.mayRun(now) {
		return
	}
	i := slices.IndexFunc(st.Sessions, func(s api.Session) bool { return s.Name == of })
	if i < 0 {
		m.wrong("%s: job %s of %s runs, and %s does not show the session", when, j.id, of, l.name)
		return
	}
	s := st.Sessions[i]
	underWay := j.tag != nil && (j.tag.running > 0 || now.Sub(j.tag.waited) < time.Minute) // its command, or the look after it
	if underWay || s.State == api.SessionSubmitting && s.MaySubmit {
		return
	}
	for viewer, text := range readings(st, s, now) {
		if !names(text, j.id) && !strings.Contains(text, mayAppear) {
			m.wrong("%s: job %s of %s runs, and %s of %s does not say so:\n%s", when, j.id, of, viewer, l.name, text)
		}
	}
	if !action.MayBeCharged(s) && j.ended.IsZero() {
		m.wrong("%s: job %s runs, and by what %s shows of %s nothing is charged", when, j.id, l.name, s.Name)
	}
}

// staleFor is how long after the end of a job, or of what kept a laptop from knowing of it, the job of
// a session that is up may be shown as before.
const staleFor = 12 * time.Minute

// checkTrue checks that what is shown of a session is so.
func (m *model) checkTrue(l *modelLaptop, s api.Session, when string, now time.Time) {
	host := l.agent.Hosts.Pool.Host("hpc").Status()
	connected := host.State == api.HostUp && now.Sub(host.Since) > staleFor
	for _, shown := range shownJobs(s) {
		j := m.cluster.find(shown.ID)
		if j == nil {
			continue
		}
		if j.tag == nil {
			if shown.Name == j.name && !j.attached {
				m.wrong("%s: %s shows job %s of the person as that of %s", when, l.name, j.id, s.Name)
			}
			continue
		}
		if shown.State.Ended() && j.live(now) && j.ended.IsZero() {
			m.wrong("%s: job %s runs, and %s shows it as %s", when, j.id, l.name, shown.State)
		}
		w := l.wishes[s.Name]
		// Without accounting, nobody learns how a job ended that was started by another address.
		unheard := !m.cluster.history && l.agent.Store.Session(s.Name).Submissions.Of(shown).Elsewhere(l.agent.Hosts.Pool.Host("hpc").Account())
		settled := connected && !unheard && s.IsUp() && now.Sub(l.troubled) > staleFor && (w == nil || now.Sub(w.asked) > time.Minute)
		if settled && !shown.State.Ended() && now.Sub(j.end()) > staleFor {
			m.wrong("%s: job %s has ended at %s, and %s shows it as %s", when, j.id, j.end().Sub(m.since), l.name, shown.State)
		}
		if settled && shown.State == api.JobRunning && now.Before(j.start) && now.Sub(j.submitted) > staleFor && j.restarts == 0 {
			m.wrong("%s: job %s waits, and %s shows it as %s", when, j.id, l.name, shown.State)
		}
	}
	if w := l.wishes[s.Name]; w != nil && s.MaySubmit && now.Sub(w.asked) > permitFor {
		m.wrong("%s: %s says that it may submit a job of %s, which nobody permits", when, l.name, s.Name)
	}
}

// permitFor is how long the user's up permits a submission, and some time to notice its end.
const permitFor = time.Hour + time.Minute

// checkSubmission checks that the user, or keep, permits a submit command that begins, that its tag
// is on the disk, and that there is no job in whose place it would run. It holds the lock of the
// cluster.
func (m *model) checkSubmission(tag *modelTag) {
	l := tag.laptop
	m.did("%s submits %s", l.name, tag.tag)
	if !strings.Contains(l.stateFile(), `"`+tag.tag+`"`) {
		m.wrong("%s is submitted, and not in the state file", tag.tag)
	}
	if tag.session == "" {
		if l.submits.Load() == 0 {
			m.wrong("nobody asked for %s", tag.tag)
		}
		return
	}
	w := l.wishes[tag.session]
	if w == nil {
		m.wrong("%s is of no session", tag.tag)
		return
	}
	if was := m.before(tag); was != nil {
		due := m.due(was)
		switch {
		case !w.kept:
			m.wrong("%s follows a job although keep is off", tag.tag)
		case was.endedBy == l && time.Since(was.ended) > time.Minute: // of another laptop's cancel it hears later; the next job ends then, as one that is just submitted
			m.wrong("%s follows a job that a person cancelled", tag.tag)
		case time.Since(was.extended) < 2*time.Minute: // by another laptop, of which it hears at its next query
		case time.Since(was.requeued) < 2*time.Minute: // likewise
		case time.Now().Before(due.Add(-ledger.KeepSlack)) && !m.jumped: // the model's jobs have other times then
			m.wrong("%s is %s too early", tag.tag, time.Until(due))
		}
		return
	}
	if w.granted.IsZero() || time.Since(w.granted) > permitFor {
		m.wrong("nobody permitted %s", tag.tag)
	}
	w.endPermit()
	account := l.agent.Hosts.Pool.Host("hpc").Account()
	for _, sub := range l.agent.Store.Session(tag.session).Submissions {
		if sub.Job == nil || sub.Cancel || sub.Elsewhere(account) {
			continue
		}
		if j := m.cluster.find(sub.Job.ID); j != nil && j.tag != nil && j.live(time.Now()) && j.ended.IsZero() {
			m.wrong("%s is submitted beside job %s, which runs", tag.tag, j.id)
		}
	}
}

// before is the job that a job of keep follows; nil of others.
func (m *model) before(tag *modelTag) *modelJob {
	after, kept := strings.CutPrefix(tag.tag, "after-")
	if !kept {
		return nil
	}
	id, _, _ := strings.Cut(after, "-")
	for _, j := range m.cluster.jobs {
		if number, _, _ := strings.Cut(j.id, "."); number == id && j.tag != nil {
			return j
		}
	}
	return nil
}

// due is when the next job may be submitted.
func (m *model) due(j *modelJob) time.Time {
	return ledger.KeepAt(api.Job{Submitted: j.submitted, Start: j.start, End: j.start.Add(j.limit)}, session.DefaultLimits().KeepLead)
}

// checkEnded checks that no job of a session is left that the user wanted ended.
func (m *model) checkEnded(l *modelLaptop, session, when string) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	w := l.wishes[session]
	for _, j := range m.cluster.jobs {
		if !w.ended.IsZero() && j.tag != nil && j.tag.laptop == l && j.tag.session == session && !j.tag.told && j.tag.at.Before(w.ended) && j.live(time.Now()) && j.ended.IsZero() {
			m.wrong("%s: job %s of %s on %s is left", when, j.id, session, l.name)
		}
	}
}

// ended are the jobs that the laptop has ended.
func (l *modelLaptop) ended() map[*modelJob]bool {
	over := map[*modelJob]bool{}
	l.m.cluster.set(func() {
		for _, j := range l.m.cluster.jobs {
			over[j] = j.endedBy == l
		}
	})
	return over
}

// checkDownText checks that the answer to a down names every job of its session that it has ended. The
// others were over; one of another session may be ended at the same time.
func (l *modelLaptop) checkDownText(session string, res api.DownResponse, before api.Status, began time.Time, over map[*modelJob]bool) {
	text := strings.Join(action.DownTexts(res, before, time.Now()), "\n")
	l.m.cluster.mu.Lock()
	defer l.m.cluster.mu.Unlock()
	for _, j := range l.m.cluster.jobs {
		other := j.tag != nil && j.tag.session != session
		if j.endedBy == l && !other && !over[j] && !j.submitted.After(began) && j.ended.Sub(began) < time.Minute && !names(text, j.id) {
			l.m.wrong("the down has ended job %s, and says %q", j.id, text)
		}
	}
}

// checkAssistant checks that no job was ended for an assistant without the user's yes. The others were
// over.
func (m *model) checkAssistant(l *modelLaptop, over map[*modelJob]bool, allowed bool) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	for _, j := range m.cluster.jobs {
		if j.endedBy != l || over[j] || j.tag == nil || allowed {
			continue
		}
		if w := l.wishes[j.tag.session]; (w == nil || w.ended.IsZero()) && m.before(j.tag) == nil {
			m.wrong("an assistant has ended job %s, which nobody allowed", j.id)
		}
	}
}

// checkSubmitted checks what `tunctl submit` says of a job that it has submitted.
func (l *modelLaptop) checkSubmitted(began time.Time, id string, err error) {
	l.m.cluster.mu.Lock()
	defer l.m.cluster.mu.Unlock()
	for _, tag := range l.m.cluster.tags {
		if tag.laptop != l || tag.at.Before(began) || tag.told || tag.session != "" || tag.job == nil {
			continue
		}
		tag.told = err == nil
		if err == nil && id != tag.job.id {
			l.m.wrong("job %s was submitted, and the command says %s", tag.job.id, id)
		}
		if err != nil && !doubtWords.MatchString(err.Error()) {
			l.m.wrong("job %s was submitted, and the command says: %v", tag.job.id, err)
		}
	}
}

var doubtWords = regexp.MustCompile(`cannot tell whether|may (still )?be submitted|` + mayAppear)

// finish lets everything settle, and checks what is left.
func (m *model) finish() {
	m.cluster.set(func() { m.cluster.lieEnds, m.cluster.slowEnd = time.Time{}, 0 })
	for _, l := range m.laptops {
		l.freeDisk()
		l.restore()
		l.leave()
	}
	m.sleep(15 * time.Minute)
	synctest.Wait()
	for _, l := range m.laptops {
		l.connect() // a host may need the user by now
	}
	m.sleep(13 * time.Minute)
	synctest.Wait()
	if !m.misled {
		m.checkEnd()
	}
	for _, l := range m.laptops {
		l.stop()
	}
}

// checkEnd checks what is left.
func (m *model) checkEnd() {
	m.check("in the end")
	for _, l := range m.laptops {
		for _, name := range modelSessions {
			s := l.statusOf(name)
			m.did("%s shows %s as %s: %s; jobs %s, pending %v", l.name, name, s.State, s.Cause, ids(shownJobs(s)), s.Pending)
			if s.Pending && !m.submittedLately(l, name) {
				m.wrong("%s waits for a job of %s that cannot appear any more", l.name, name)
			}
			if s.State == api.SessionDown {
				for _, j := range shownJobs(s) {
					l.wishes[name].unheard = append(l.wishes[name].unheard, j.ID)
				}
			}
			m.checkEnded(l, name, "in the end")
		}
		m.checkHistory(l)
	}
	m.cluster.set(func() {
		for _, j := range m.cluster.jobs {
			if j.tag != nil && j.live(time.Now()) {
				m.checkSuccessor(j, time.Now())
			}
		}
	})
}

// submittedLately reports whether a job of a session may still appear. Another laptop may have submitted
// the one that follows, and the agent may have crashed a moment before a submission began.
func (m *model) submittedLately(l *modelLaptop, session string) bool {
	for _, sub := range l.agent.Store.Session(session).Submissions {
		if sub.InDoubt() && time.Since(sub.When) < state.DoubtTime+2*state.MissApart {
			return true
		}
	}
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	for _, tag := range m.cluster.tags {
		if tag.session == session && time.Since(tag.waited) < state.DoubtTime+2*state.MissApart {
			return true
		}
	}
	return false
}

func ids(jobs []api.Job) string {
	var list []string
	for _, j := range jobs {
		list = append(list, fmt.Sprintf("%s %s", j.ID, j.State))
	}
	return fmt.Sprintf("%q", list)
}

// checkSuccessor checks that a live job that follows another still should. A laptop whose session
// is down does not ask the scheduler, and may not have heard of another laptop's cancel; nor can it
// where there is no accounting, and nothing else tells a cancel from an end.
func (m *model) checkSuccessor(j *modelJob, now time.Time) {
	was := m.before(j.tag)
	if was == nil || j.tag.told { // its laptop lost its record, and the wish to end it
		return
	}
	untold := was.endedBy != j.tag.laptop && !m.cluster.history && m.cluster.dialect.name() != "slurm"
	switch {
	case was.endedBy != nil && !untold && !slices.Contains(j.tag.laptop.wishes[j.tag.session].unheard, was.id):
		m.wrong("job %s follows job %s, which a person cancelled", j.id, was.id)
	case !was.extended.IsZero() && was.live(now) && now.Before(m.due(was).Add(-ledger.KeepSlack)):
		m.wrong("job %s runs beside job %s, which was extended", j.id, was.id)
	}
}

// checkHistory checks that each job that has ended is in the history once.
func (m *model) checkHistory(l *modelLaptop) {
	runs, err := l.agent.History.Runs()
	if err != nil {
		m.wrong("history of %s: %v", l.name, err)
	}
	seen := map[string]bool{}
	for _, r := range runs {
		key := r.Session + " " + r.Job.ID
		if seen[key] && !m.jumped { // by a clock that jumps, a job that was cancelled is submitted again
			m.wrong("%s has job %s of %s twice in its history", l.name, r.Job.ID, r.Session)
		}
		seen[key] = true
	}
}
