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

// Problem is why the agent could not read the state file in full, now or at some time before; nil if
// it could. set is the file that was set aside then.
func Problem(path string) (set string, why error) {
	if s, err := Open(path); err != nil || s.Unread() != nil {
		return path, cmp.Or(err, s.Unread())
	}
	set = path + unreadSuffix
	raw, err := os.ReadFile(set)
	if err != nil {
		return "", nil
	}
	if _, why = parse(raw); why == nil { // a newer tunctl is installed by now
		return "", nil
	}
	return set, fmt.Errorf("state file %q %w", set, why)
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
		session.Submissions = find(raw)
		if c.Version == 1 {
			session.Submissions = submissionsV1(raw)
		}
		for i := range session.Submissions {
			x := &session.Submissions[i]
			x.Host = cmp.Or(x.Host, session.Attached, c.hostOf(x.Account))
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

// submissionsV1 are the jobs of a session of version 1.
func submissionsV1(raw json.RawMessage) Submissions {
	var old struct {
		Tag     string      `json:"tag"`
		Doubted bool        `json:"doubted"`
		Job     *api.Job    `json:"job"`
		With    api.Choices `json:"with"`
		Account string      `json:"account"`
		Next    *api.Job    `json:"next"`
		NextTag string      `json:"nextTag"`
	}
	_ = json.Unmarshal(raw, &old) // it was decoded before
	all := Submissions{
		{Role: RoleJob, Tag: old.Tag, Job: old.Job, Doubt: old.Doubted, Account: old.Account, With: old.With},
		{Role: RoleNext, Tag: old.NextTag, Job: old.Next, Account: old.Account, With: old.With},
	}
	return slices.DeleteFunc(all, func(s Submission) bool { return s.Tag == "" && s.Job == nil })
}

// find returns every submission in a part of a file whose form is not known: what has a tag or a
// job, and what looks like a job.
func find(raw json.RawMessage) Submissions {
	var list []json.RawMessage
	var object map[string]json.RawMessage
	var found Submissions
	if json.Unmarshal(raw, &object) == nil {
		var s Submission
		var job api.Job
		_ = json.Unmarshal(raw, &s) // as far as it has the form of this version
		_ = json.Unmarshal(raw, &job)
		if s.Job == nil && job.ID != "" && job.State != "" {
			s.Job = &job
		}
		if s.Tag != "" || s.Job != nil && s.Job.ID != "" {
			s.Role = cmp.Or(s.Role, RoleOther)
			found = Submissions{s}
		}
		for _, key := range slices.Sorted(maps.Keys(object)) {
			list = append(list, object[key])
		}
	} else if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	for _, part := range list {
		for _, s := range find(part) {
			if s.Job == nil || found.Of(*s.Job).Job == nil {
				found = append(found, s)
			}
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
