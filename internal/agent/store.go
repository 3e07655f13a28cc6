package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/atomicfile"
)

// storeVersion is the version of the state file's form.
const storeVersion = 1

// store is what the agent remembers across its own ends: a small JSON file that
// is replaced whole at each change.
type store struct {
	path string

	mu        sync.Mutex
	data      stored
	unwritten bool // the last write failed
}

type stored struct {
	Version  int               `json:"version"`
	Sessions map[string]record `json:"sessions"`
	Hosts    map[string]login  `json:"hosts"`
	// Passwords are the accounts whose password the system's keyring holds.
	Passwords []string `json:"passwords,omitempty"`
}

// record is what is remembered of a session.
type record struct {
	// Wanted: the session was up, and is adopted when the agent starts again.
	Wanted bool `json:"wanted,omitempty"`
	// Port is the local port that is the session's own.
	Port int `json:"port,omitempty"`
	// Tag names the submission under way, or the one that made the job. It is
	// written before the scheduler is asked, and is an idempotency key there.
	Tag string `json:"tag,omitempty"`
	// Doubted says that nobody could find out whether Tag became a job: a person has
	// looked when they bring the session up again, and that takes a new tag.
	Doubted bool `json:"doubted,omitempty"`
	// Job is the job as last known; no ID while a submission's fate is open.
	Job *api.Job `json:"job,omitempty"`
	// Account is where Job and Next are, as user@address.
	Account string `json:"account,omitempty"`
	// Next is the job that keep = true has submitted to follow Job, NextTag its tag,
	// KeptFor the job whose end was seen to, and Kept when the last day's were submitted.
	Next    *api.Job    `json:"next,omitempty"`
	NextTag string      `json:"nextTag,omitempty"`
	KeptFor string      `json:"keptFor,omitempty"`
	Kept    []time.Time `json:"kept,omitempty"`
	// Attached is the host of a session that is in no config: Job was started by hand.
	Attached string `json:"attached,omitempty"`
	// Forwards are those of a session that is in no config and has no job.
	Forwards []string `json:"forwards,omitempty"`
	// Reach is the way to the endpoint that worked last.
	Reach api.Reach `json:"reach,omitempty"`
}

// login is what is remembered of logging in to a host.
type login struct {
	Silent  bool   `json:"silent,omitempty"`
	Address string `json:"address,omitempty"`
	// Accounts are those that the name was logged in to, the newest last.
	Accounts []string `json:"accounts,omitempty"`
}

// openStore reads the state file.
func openStore(path string) (*store, error) {
	s := &store{path: path}
	return s, s.read()
}

// read takes the file as it is now in place of what was known. One that a newer tunctl
// wrote is refused: it may say things that must not be lost.
func (s *store) read() error {
	data := stored{Version: storeVersion, Sessions: map[string]record{}, Hosts: map[string]login{}}
	raw, err := os.ReadFile(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read state: %w", err)
	}
	if err == nil {
		var file stored
		if err := json.Unmarshal(raw, &file); err != nil {
			return fmt.Errorf("state file %q is damaged: %w", s.path, err)
		}
		if file.Version > storeVersion {
			return fmt.Errorf("state file %q has version %d, written by a newer tunctl; this one supports version %d: install the newer tunctl, or move the file away", s.path, file.Version, storeVersion)
		}
		maps.Copy(data.Sessions, file.Sessions)
		maps.Copy(data.Hosts, file.Hosts)
		data.Passwords = file.Passwords
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = data
	return nil
}

// session returns what is remembered of a session.
func (s *store) session(name string) record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Sessions[name]
}

// wanted lists the sessions that were up.
func (s *store) wanted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, r := range s.data.Sessions {
		if r.Wanted {
			names = append(names, name)
		}
	}
	return names
}

// update changes a session's record and writes the file before it returns. What a
// record points to must not be changed in place.
func (s *store) update(name string, change func(*record)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.data.Sessions[name]
	after := before
	change(&after)
	if reflect.DeepEqual(after, before) && !s.unwritten {
		return nil
	}
	s.data.Sessions[name] = after
	return s.writeLocked()
}

// drop forgets a session.
func (s *store) drop(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.data.Sessions, name)
	return s.writeLocked()
}

// writeLocked replaces the file. The write is small and on a local disk, and the
// order of records on disk must be that of the changes; so it happens under the lock.
func (s *store) writeLocked() (err error) {
	defer func() { s.unwritten = err != nil }()
	raw, err := json.MarshalIndent(s.data, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(s.path, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("cannot save the state: %w", err)
	}
	return nil
}

// host returns what is remembered of logging in to a host, if anything.
func (s *store) host(name string) (login, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.data.Hosts[name]
	return l, ok
}

// Silent implements tunnel.Memory.
func (s *store) Silent(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Hosts[host].Silent
}

// SetSilent implements tunnel.Memory.
func (s *store) SetSilent(host string, silent bool) {
	s.updateHost(host, func(r *login) { r.Silent = silent })
}

// LastAddress implements tunnel.Memory.
func (s *store) LastAddress(host string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Hosts[host].Address
}

// SetLastAddress implements tunnel.Memory.
func (s *store) SetLastAddress(host, address string) {
	s.updateHost(host, func(r *login) { r.Address = address })
}

// maxAccounts is how many accounts of one host's name are remembered.
const maxAccounts = 8

// Accounts implements tunnel.Memory.
func (s *store) Accounts(host string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Hosts[host].Accounts
}

// AddAccount implements tunnel.Memory.
func (s *store) AddAccount(host, account string) {
	s.updateHost(host, func(r *login) {
		all := append(slices.Clip(r.Accounts), account)
		r.Accounts = all[max(0, len(all)-maxAccounts):]
	})
}

// updateHost keeps the change in memory even where it cannot be written: what is
// lost then is a convenience at the next start.
func (s *store) updateHost(host string, change func(*login)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.data.Hosts[host]
	after := before
	change(&after)
	if reflect.DeepEqual(after, before) {
		return
	}
	s.data.Hosts[host] = after
	_ = s.writeLocked()
}
