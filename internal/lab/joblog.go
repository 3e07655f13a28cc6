package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// spool keeps the script as it was when submitted, as the real ones do.
func (j *job) spool(dir string) error {
	dir = filepath.Join(dir, fmt.Sprintf("job%05d", j.seq))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	j.spoolIn = dir
	return writeProgram(filepath.Join(dir, "slurm_script"), j.text)
}

// nodeFile lists the job's nodes, for PBS_NODEFILE.
func (j *job) nodeFile() string { return filepath.Join(j.spoolIn, "nodes") }

// jobLogs are a running job's open output files.
type jobLogs struct {
	out, err *os.File
}

func (l *jobLogs) note(text string) {
	if text != "" {
		_, _ = io.WriteString(l.err, text)
	}
}

func (l *jobLogs) close() {
	_ = l.out.Close()
	if l.err != l.out {
		_ = l.err.Close()
	}
}

func (j *job) openLogs() (*jobLogs, error) {
	out, err := j.openLog(j.Log, "OU")
	if err != nil {
		return nil, err
	}
	if j.errFile == j.Log {
		return &jobLogs{out: out, err: out}, nil
	}
	errs, err := j.openLog(j.errFile, "ER")
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return &jobLogs{out: out, err: errs}, nil
}

// openLog opens an output file, or what PBS spools it in until the job ends.
func (j *job) openLog(path, kind string) (*os.File, error) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	switch {
	case j.spools:
		path = j.spoolPath(kind)
	case !j.appendLog:
		flags |= os.O_TRUNC
	}
	return os.OpenFile(path, flags, 0o600)
}

func (j *job) spoolPath(kind string) string { return filepath.Join(j.spoolIn, j.ID+"."+kind) }

// deliver copies spooled output to where it was asked for, as PBS does at the end.
func (j *job) deliver() error {
	if !j.spools {
		return nil
	}
	kinds := map[string]string{"OU": j.Log}
	if j.errFile != j.Log {
		kinds["ER"] = j.errFile
	}
	for kind, path := range kinds {
		text, err := os.ReadFile(j.spoolPath(kind))
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil { //nolint:gosec // where the submitter asked for it
			return err
		}
	}
	return nil
}
