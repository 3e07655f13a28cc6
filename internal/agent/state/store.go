// Package state keeps what survives a restart of the agent: the sessions with
// their jobs and tags, how and when each host was logged in to, the crashes of the
// agent, and the history of the jobs that ended. It decides nothing: what to adopt or
// submit is up to the agent.
package state

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
)

// Store is the state file: a small JSON file that is replaced as a whole at each
// change. It implements tunnel.Memory.
type Store struct {
	path string

	mu        sync.Mutex
	data      content
	unwritten bool  // the last write failed
	unread    error // why the file was not read in full
}

// Session is what is remembered of a session.
type Session struct {
	// Wanted says that the session was up; it is brought up when the agent starts.
	Wanted bool `json:"wanted,omitempty"`
	// Failure is why the last attempt ended to bring up a session whose job is submitted.
	Failure *api.Error `json:"failure,omitempty"`
	// Port is the session's local port.
	Port int `json:"port,omitempty"`
	// Submissions are the session's jobs, and what may become one.
	Submissions Submissions `json:"submissions,omitempty"`
	// Recent are the choices of earlier runs, the newest first.
	Recent []api.Choices `json:"recent,omitempty"`
	// Of is the session of the config that this one is a second of. Attached is its host.
	Of string `json:"of,omitempty"`
	// Asked is the time limit of the job in seconds, as last seen while it ran: the end of a
	// job that is over replaces its limit.
	Asked int64 `json:"asked,omitempty"`
	// Assisted says that an assistant asked for the job, and no user.
	Assisted bool `json:"assisted,omitempty"`
	// Kept are the times of the last day's submissions by keep = true.
	Kept []time.Time `json:"kept,omitempty"`
	// Unfollowed is the tag of the submission by keep = true that is not to be made, or not again.
	Unfollowed string `json:"unfollowed,omitempty"`
	// Attached is the host of a session that is in no config: its job was started by hand.
	Attached string `json:"attached,omitempty"`
	// Forwards are those of a session that is in no config and has no job.
	Forwards []string `json:"forwards,omitempty"`
	// Added are the forwards that were added to a session with a job until its down, Opened
	// the names of its job's other pages that were opened since its up.
	Added  []string `json:"added,omitempty"`
	Opened []string `json:"opened,omitempty"`
	// Ports are the local ports that were picked for forwards with port 0, by their text,
	// and for the job's other pages, by their name.
	Ports map[string]int `json:"ports,omitempty"`
	// LocalToken stands for the token of the session's page on this computer; "": none was made.
	LocalToken string `json:"localToken,omitempty"`
	// Reach is the way to the endpoint that worked last.
	Reach api.Reach `json:"reach,omitempty"`
	// Cells are those whose page is gone, by the name of the relay that told of them; "": as a user has found.
	Cells map[string]KeptCells `json:"cells,omitempty"`
}

// KeptCells are cells whose output is kept on the host. Of those that run one after the other none counts as
// finished before all are.
type KeptCells struct {
	api.Cells

	Job string    `json:"job,omitempty"` // in which they ran
	At  time.Time `json:"at"`            // when they were last told of
}

// maxPorts bounds the remembered ports, for sessions whose forwards change often.
const maxPorts = 64

// KeepPorts remembers ports that were picked: that of the main page unless it is 0, and others.
func (s *Session) KeepPorts(page int, picked map[string]int) {
	s.Port = cmp.Or(page, s.Port)
	if len(picked) == 0 {
		return
	}
	all := maps.Clone(s.Ports)
	if all == nil || len(all)+len(picked) > maxPorts {
		all = map[string]int{}
	}
	maps.Copy(all, picked)
	s.Ports = all
}

// maxRecent is how many choices are kept for one session.
const maxRecent = 5

// AddRecent makes choices the newest of Recent.
func (s *Session) AddRecent(with api.Choices) {
	recent := []api.Choices{with}
	for _, earlier := range s.Recent {
		if !maps.Equal(earlier, with) && len(recent) < maxRecent {
			recent = append(recent, earlier)
		}
	}
	s.Recent = recent
}

// Current is the session's job; zero if it has none.
func (s Session) Current() Submission { return s.Submissions.As(RoleJob) }

// Next is the job that follows it; zero if none does.
func (s Session) Next() Submission { return s.Submissions.As(RoleNext) }

// login is what is remembered of logging in to a host.
type login struct {
	api.Known
	// TestSubmits says that a command that should only test a job has submitted it.
	TestSubmits bool `json:"testSubmits,omitempty"`
	// Found are the values for choices that the host had when it was last looked at.
	Found map[string][]string `json:"found,omitempty"`
	// Searched is the content.Unread for which the jobs there were found again.
	Searched time.Time `json:"searched,omitzero"`
}

// Open reads the state file; see Reload. A missing one is empty.
func Open(path string) (*Store, error) {
	s := &Store{path: path}
	return s, s.Reload()
}

// Session returns what is remembered of a session.
func (s *Store) Session(name string) Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Sessions[name]
}

// Unsettled lists the sessions with submissions that somebody has to look after.
func (s *Store) Unsettled() []string {
	return s.names(func(r Session) bool { return len(r.Submissions.Unsettled()) > 0 })
}

// Live lists the sessions with jobs that may wait or run.
func (s *Store) Live() []string {
	return s.names(func(r Session) bool { return r.Submissions.AnyLive() })
}

// Wanted lists the sessions that were up.
func (s *Store) Wanted() []string { return s.names(func(r Session) bool { return r.Wanted }) }

// names are the sessions whose record fits, sorted.
func (s *Store) names(fits func(Session) bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, r := range s.data.Sessions {
		if fits(r) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Update changes what is remembered of a session, and writes the file before it returns.
// change must not modify what the pointers of a Session point to.
func (s *Store) Update(name string, change func(*Session)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return update(s, s.data.Sessions, name, change)
}

// Begin is Update for what must be in the file before something is done: if the file cannot be
// written, nothing has changed.
func (s *Store) Begin(name string, change func(*Session)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.data.Sessions[name]
	err := update(s, s.data.Sessions, name, change)
	if err != nil {
		s.data.Sessions[name] = before
	}
	return err
}

// update changes what is remembered under a name, and writes the file, while the caller holds the lock.
func update[T any](s *Store, in map[string]T, name string, change func(*T)) error {
	after := in[name]
	change(&after)
	if reflect.DeepEqual(after, in[name]) && !s.unwritten {
		return nil
	}
	in[name] = after
	s.forgetOldestLocked()
	return s.writeLocked()
}

// maxAttached is how many sessions are remembered that are in no config and not up: each
// job that was attached leaves one, until the user takes it down.
const maxAttached = 50

// forgetOldestLocked keeps the number of such sessions below maxAttached.
func (s *Store) forgetOldestLocked() {
	var names []string
	for name, r := range s.data.Sessions {
		if r.Attached != "" && !r.Wanted && (r.Of == "" || !r.Submissions.AnyLive()) {
			names = append(names, name)
		}
	}
	if len(names) <= maxAttached {
		return
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(s.data.Sessions[a].lastTime().Compare(s.data.Sessions[b].lastTime()), cmp.Compare(a, b))
	})
	for _, name := range names[:len(names)-maxAttached] {
		delete(s.data.Sessions, name)
	}
}

// lastTime is the last thing known about the job; zero without one.
func (s Session) lastTime() time.Time {
	job := s.Current().Job
	if job == nil {
		return time.Time{}
	}
	return slices.MaxFunc([]time.Time{job.Submitted, job.Start, job.End}, time.Time.Compare)
}

// Drop forgets a session.
func (s *Store) Drop(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.data.Sessions, name)
	return s.writeLocked()
}

// host is what is remembered of logging in to a host.
func (s *Store) host(name string) login {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Hosts[name]
}

// KnowsHost reports whether a host was logged in to.
func (s *Store) KnowsHost(name string) bool {
	known := s.host(name)
	known.Logins = api.Logins{} // of refused logins, too
	return !reflect.ValueOf(known).IsZero()
}

// Known implements tunnel.Memory.
func (s *Store) Known(host string) api.Known { return s.host(host).Known }

// Remember implements tunnel.Memory.
func (s *Store) Remember(host string, change func(*api.Known)) {
	s.updateHost(host, func(l *login) { change(&l.Known) })
}

// TestSubmits reports whether a test of a job has ever submitted it on a host.
func (s *Store) TestSubmits(host string) bool { return s.host(host).TestSubmits }

// SetTestSubmits remembers for good that a test of a job submits it on a host.
func (s *Store) SetTestSubmits(host string) {
	s.updateHost(host, func(r *login) { r.TestSubmits = true })
}

// Found are the values for choices that a host had when it was last looked at.
func (s *Store) Found(host string) map[string][]string { return s.host(host).Found }

// SetFound remembers them. For what a look found nothing, the values of an earlier one stay: the
// scheduler may not have answered in time.
func (s *Store) SetFound(host string, found map[string][]string) {
	s.updateHost(host, func(r *login) {
		known := map[string][]string{}
		maps.Copy(known, r.Found)
		maps.Copy(known, found)
		r.Found = known
	})
}

// updateHost keeps the change in memory even if the file cannot be written: only
// convenience is lost at the next start.
func (s *Store) updateHost(host string, change func(*login)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = update(s, s.data.Hosts, host, change)
}

// Accounts is a list of accounts in the file.
type Accounts func(*content) *[]string

// SavedPasswords are the accounts whose password is in the keyring.
func SavedPasswords(c *content) *[]string { return &c.Passwords }

// RefusedPasswords are the accounts whose saved password the host refused.
func RefusedPasswords(c *content) *[]string { return &c.RefusedPasswords }

// Lists reports whether an account is in a list.
func (s *Store) Lists(in Accounts, account string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(*in(&s.data), account)
}

// List adds an account to a list or removes it. As with hosts, memory is enough if the file
// cannot be written.
func (s *Store) List(in Accounts, account string, with bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := in(&s.data)
	*list = slices.DeleteFunc(slices.Clone(*list), func(a string) bool { return a == account })
	if with {
		*list = append(*list, account)
	}
	_ = s.writeLocked()
}

// Balances are the last known balances of all hosts, by host.
func (s *Store) Balances() []api.HostBalances {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]api.HostBalances{}, s.data.Balances...)
}

// FullText says which folder of a host is full, by its last balances; "" if none is.
func (s *Store) FullText(host string) string {
	for _, b := range s.Balances() {
		if b.Host == host {
			return b.FullText()
		}
	}
	return ""
}

// SetBalances records the balances of a host, in place of those before; none if nothing
// could be read. As with hosts, memory is enough if the file cannot be written.
func (s *Store) SetBalances(b api.HostBalances) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(s.data.Balances), func(o api.HostBalances) bool { return o.Host == b.Host })
	if len(b.Balances) > 0 {
		all = append(all, b)
	}
	slices.SortFunc(all, func(x, y api.HostBalances) int { return cmp.Compare(x.Host, y.Host) })
	s.data.Balances = all
	_ = s.writeLocked()
}

// maxCrashes is how many crashes are remembered.
const maxCrashes = 10

// AddCrash records that an agent ended without a stop, and returns how many did within
// the window before.
func (s *Store) AddCrash(at time.Time, window time.Duration) (recent int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := func(t time.Time) bool { return at.Sub(t) > window || t.After(at) } // a clock that was set back
	all := append(slices.DeleteFunc(slices.Clone(s.data.Crashes), old), at)
	s.data.Crashes = all[max(0, len(all)-maxCrashes):]
	return len(s.data.Crashes), s.writeLocked()
}

// ClearCrashes forgets the crashes: the agent was stopped.
func (s *Store) ClearCrashes() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.data.Crashes) == 0 {
		return nil
	}
	s.data.Crashes = nil
	return s.writeLocked()
}

// AssistantJob is a job that an assistant started.
type AssistantJob struct {
	Tag       string    `json:"tag"` // of its submission
	At        time.Time `json:"at"`
	NodeHours float64   `json:"nodeHours"` // that it asked for
}

// assistantDay is how long a job of an assistant counts.
const assistantDay = 24 * time.Hour

// AssistantHours are the node-hours of the jobs that assistants started within a day before
// now.
func (s *Store) AssistantHours(now time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hoursOf(s.assistantJobsLocked(now, ""))
}

// assistantJobsLocked are the jobs that count, but for the one with this tag.
func (s *Store) assistantJobsLocked(now time.Time, except string) []AssistantJob {
	now = now.Round(0) // of the wall clock: a day also passes while the computer sleeps
	return slices.DeleteFunc(slices.Clone(s.data.Assistants), func(j AssistantJob) bool {
		return j.Tag == except || now.Sub(j.At) >= assistantDay
	})
}

func hoursOf(jobs []AssistantJob) (sum float64) {
	for _, j := range jobs {
		sum += j.NodeHours
	}
	return sum
}

// AddAssistantJob records a job before an assistant's session submits it, and forgets those
// of earlier days. If it does not fit into limit with the others, nothing is recorded. It
// returns how much was left before it. A submission that is repeated counts once.
func (s *Store) AddAssistantJob(job AssistantJob, limit float64) (left float64, fits bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	jobs := s.assistantJobsLocked(job.At, job.Tag)
	if left = limit - hoursOf(jobs); job.NodeHours > left {
		return left, false, nil
	}
	jobs = append(jobs, job)
	s.data.Assistants = jobs
	return left, true, s.writeLocked()
}

// DropAssistantJob forgets a job that was not submitted for certain.
func (s *Store) DropAssistantJob(tag string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	counted := func(j AssistantJob) bool { return j.Tag == tag }
	if !slices.ContainsFunc(s.data.Assistants, counted) {
		return nil
	}
	s.data.Assistants = slices.DeleteFunc(slices.Clone(s.data.Assistants), counted)
	return s.writeLocked()
}
