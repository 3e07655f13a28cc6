package jobwatch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	"tunctl/jobwatch/sched"
)

// Submission is a job to be submitted exactly once.
type Submission struct {
	// Tag names the submission. Submitting the same tag again, from here or from another
	// computer with the same home on the host, never makes a second job.
	Tag string
	// Script is the path of the job script on the host; ~/ is the home folder.
	Script string
	// Content is the job script itself, if it is not on the host, and Base its file name
	// there.
	Content []byte
	Base    string
	// Args are extra arguments of the scheduler's submit command.
	Args []string
	// Workdir is the folder to submit from; the home folder if empty.
	Workdir string
	// Logs is the folder for the job's log, as a word of sh; it is created. "": the script says
	// where its log is. Args that say so count more.
	Logs string
	// Session is the name of the session, and Computer that of the computer that submits: see
	// Watcher.Submitted.
	Session, Computer string
	// Awaited says that the user waits for the job: if it is watched, it is queried once after
	// Limits.QueryAfterSubmit.
	Awaited bool
}

func (s Submission) base() string {
	return cmp.Or(s.Base, path.Base(s.Script))
}

func (s Submission) check() error {
	base := s.base()
	switch {
	case !sched.ValidTag.MatchString(s.Tag):
		return fmt.Errorf("%q is not a valid tag", s.Tag)
	case s.Script == "" && len(s.Content) == 0:
		return errors.New("the job script is empty")
	case bytes.IndexByte(s.Content, 0) >= 0:
		return errors.New("the job script is not text: it contains a NUL byte")
	case base == "." || base == ".." || base == "/" || strings.ContainsAny(base, "/\x00\n") || strings.HasPrefix(base, sched.OwnPrefix):
		return fmt.Errorf("%q is not a valid name for a job script", base)
	}
	return nil
}
