package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// foreign are the programs of real schedulers. A computer that has them must not
// show through: the practice cluster would seem to speak another dialect, and a
// practice job could reach a real queue.
var foreign = []string{
	"sbatch", "srun", "salloc", "squeue", "scontrol", "sacct", "sacctmgr", "scancel", "sinfo", "sstat", "sprio", "sshare",
	"qsub", "qstat", "qdel", "qselect", "qalter", "qhold", "qrls", "qrerun", "qmgr", "pbsnodes", "bsub", "bjobs",
}

// searchPath is the student's PATH: the cluster's own programs, then the
// computer's. A folder with a real scheduler's programs is replaced by one of links
// to all that is in it but them.
func (c *Cluster) searchPath() (string, error) {
	dirs := []string{c.binDir()}
	for i, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !slices.ContainsFunc(foreign, func(name string) bool { return exists(filepath.Join(dir, name)) }) {
			dirs = append(dirs, dir)
			continue
		}
		links := filepath.Join(c.dir, "path", strconv.Itoa(i))
		if err := mirror(dir, links); err != nil {
			return "", err
		}
		dirs = append(dirs, links)
	}
	return strings.Join(dirs, string(os.PathListSeparator)), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func mirror(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if slices.Contains(foreign, entry.Name()) {
			continue
		}
		if err := os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
