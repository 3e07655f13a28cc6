package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/atomicfile"
)

// fileVersion is the version of the file format. Older ones are read, too: the file has jobs that
// are charged. Samples of all are in testdata.
const fileVersion = 2

const (
	backupSuffix = ".bak"    // of the last good copy
	unreadSuffix = ".unread" // of the last file that could not be read in full
)

// content is the file.
type content struct {
	Version  int                `json:"version"`
	Sessions map[string]Session `json:"sessions"`
	Hosts    map[string]login   `json:"hosts"`
	// Passwords are the accounts whose password is in the system keyring.
	Passwords []string `json:"passwords,omitempty"`
	// RefusedPasswords are the accounts whose saved password the host refused.
	RefusedPasswords []string `json:"refusedPasswords,omitempty"`
	// Crashes are when agents ended without a stop, the newest last.
	Crashes []time.Time `json:"crashes,omitempty"`
	// Balances are the balances of the hosts, as last read.
	Balances []api.HostBalances `json:"balances,omitempty"`
	// Assistants are the jobs of the last day that assistants started.
	Assistants []AssistantJob `json:"assistants,omitempty"`
	// Unread is when a file was replaced that could not be read in full; see Store.Incomplete.
	Unread time.Time `json:"unread,omitzero"`
}

// Reload replaces what is known by what the file says now, or its last good copy. Unread says why
// that is not all; only an agent changes the file then.
func (s *Store) Reload() error {
	raw, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = []byte(`{}`), nil
	}
	if err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	data, unread := parse(raw)
	if unread != nil {
		unread = fmt.Errorf("state file %q %w", s.path, unread)
	}
	if data.Version == 0 && unread != nil {
		if raw, err := os.ReadFile(s.path + backupSuffix); err == nil {
			data, _ = parse(raw)
		}
	}
	data.Version = fileVersion
	if unread != nil {
		data.Unread = time.Now().Round(0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data, s.unread = data, unread
	return nil
}

// Unread is why the file was not read in full; nil if it was.
func (s *Store) Unread() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unread
}

// Save writes the file.
func (s *Store) Save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeLocked()
}

// Problem is why the state file could not be read in full, now or at some time before; nil if it
// could. The file is where the agent sets it aside.
func Problem(path string) (file string, why error) {
	file = path + unreadSuffix
	s, err := Open(path)
	if why = cmp.Or(err, s.Unread()); why != nil {
		return file, why
	}
	if raw, err := os.ReadFile(file); err == nil {
		if _, why = parse(raw); why != nil { // else a newer tunctl is installed by now
			why = fmt.Errorf("state file %q %w", path, why)
		}
	}
	return file, why
}

// writeLocked replaces the file and its copy. The write is small and on a local disk, and the
// order of records on disk must be that of the changes; so it happens under the lock. A file that
// could not be read in full is set aside.
func (s *Store) writeLocked() (err error) {
	defer func() { s.unwritten = err != nil }()
	raw, err := json.MarshalIndent(s.data, "", "  ")
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if s.unread != nil {
		old, err := os.ReadFile(s.path)
		if err == nil {
			err = atomicfile.Write(s.path+unreadSuffix, old, 0o600)
		}
		if err != nil {
			return fmt.Errorf("cannot save the state: %w", err)
		}
		s.unread = nil
	}
	if err := atomicfile.Write(s.path, raw, 0o600); err != nil {
		return fmt.Errorf("cannot save the state: %w", err)
	}
	_ = atomicfile.Write(s.path+backupSuffix, raw, 0o600) // an older copy is better than none
	return nil
}

// parse reads a file of any version. The error says why that is not all that the file has; without
// a version, it is damaged.
func parse(raw []byte) (content, error) {
	var data content
	err := json.Unmarshal(raw, &data)
	newer := data.Version > fileVersion && json.Valid(raw)
	if err != nil && !newer {
		data, err = content{}, fmt.Errorf("is damaged: %w", err)
	}
	if data.Sessions == nil {
		data.Sessions = map[string]Session{}
	}
	if data.Hosts == nil {
		data.Hosts = map[string]login{}
	}
	if data.Version == 1 || newer {
		data.convert(raw)
	}
	if newer {
		err = fmt.Errorf("has version %d, written by a newer tunctl; this one supports version %d and keeps the jobs that it finds", data.Version, fileVersion)
	}
	return data, err
}

// convert reads the sessions of a file of another version, its jobs first.
func (c *content) convert(raw []byte) {
	var file struct {
		Sessions map[string]json.RawMessage `json:"sessions"`
	}
	_ = json.Unmarshal(raw, &file) // it is valid, and without sessions there is no job
	for name, raw := range file.Sessions {
		var session Session
		_ = json.Unmarshal(raw, &session) // as far as it has the form of this version
		session.Submissions = nil
		for _, x := range find(raw) {
			x.Host = cmp.Or(x.Host, session.Attached, c.hostOf(x.Account))
			if x.Role == "" && session.Current().Role == "" {
				x.Role = RoleJob
			}
			x.Role = cmp.Or(x.Role, RoleOther)
			session.Submissions = append(session.Submissions, x)
		}
		c.Sessions[name] = session
	}
}

// hostOf is a host that was connected to an account; "" if none was.
func (c *content) hostOf(account string) string {
	for _, name := range slices.Sorted(maps.Keys(c.Hosts)) {
		if account != "" && slices.Contains(c.Hosts[name].Accounts, account) {
			return name
		}
	}
	return ""
}

// find returns every submission in a part of a file of another version: what has a tag or a job,
// and what looks like a job. What is inside of it comes after it.
func find(raw json.RawMessage) (found Submissions) {
	var parts []json.RawMessage
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		_ = json.Unmarshal(raw, &parts) // else it has no parts
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		parts = append(parts, object[key])
	}
	var s struct {
		Submission
		Doubted bool     `json:"doubted"` // these are of version 1, where a session has one submission, and one that follows
		Next    *api.Job `json:"next"`
		NextTag string   `json:"nextTag"`
	}
	var job api.Job
	_, _ = json.Unmarshal(raw, &s), json.Unmarshal(raw, &job) // as far as they have the form of this version
	s.Doubt = s.Doubt || s.Doubted
	if s.Job == nil && job.ID != "" && job.State != "" {
		s.Job = &job
	}
	next := Submission{Role: RoleNext, Tag: s.NextTag, Job: s.Next, Account: s.Account, With: s.With}
	all := Submissions{s.Submission, next}
	for _, part := range parts {
		all = append(all, find(part)...)
	}
	for _, x := range all {
		if x.Job != nil && found.Of(*x.Job).Job == nil || x.Job == nil && x.Tag != "" {
			found = append(found, x)
		}
	}
	return found
}

// Incomplete reports whether jobs on a host may be missing since a file could not be read in full.
func (s *Store) Incomplete(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.data.Hosts[host].Searched.Equal(s.data.Unread)
}

// SetComplete records that the jobs on a host were found again.
func (s *Store) SetComplete(host string) {
	s.updateHost(host, func(r *login) { r.Searched = s.data.Unread })
}
