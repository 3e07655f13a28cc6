// Package joblog reads the files that jobs write on a host: it follows their logs from an offset,
// in parts of limited size, and reads the runtime files of Jupyter servers. Package detect finds
// the server's address in them. It does not know schedulers.
package joblog

import (
	"tunctl/internal/api"
	"tunctl/jobwatch/remote"
)

// Reader reads the files that the jobs of one host write. Its Followers share their commands, and
// its RuntimeFiles what they read.
type Reader struct {
	limits  remote.Limits
	batch   *readBatch
	runtime runtimeList
}

// NewReader returns the Reader of a host.
func NewReader(sh *remote.Shell, limits remote.Limits) *Reader {
	return &Reader{limits: limits, batch: newReadBatch(sh, limits.LogFirst), runtime: runtimeList{turn: make(remote.Turn, 1)}}
}

// NewFollower returns a Follower of files on the host, with the Reader's limits.
func (r *Reader) NewFollower(o FollowOptions) *Follower {
	o.Limits = r.limits
	f := NewFollower(r.batch.sh.Runner, o)
	f.batch = r.batch
	return f
}

// RuntimeFiles returns the runtime files of a job, which runner reads.
func (r *Reader) RuntimeFiles(runner remote.Runner, job api.Job, owner Owner) *RuntimeFiles {
	return &RuntimeFiles{reader: r, runner: runner, job: job, owner: owner, owners: map[string]ownership{}}
}
