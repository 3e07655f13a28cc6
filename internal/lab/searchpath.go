package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// realSchedulers are the programs of real schedulers, which must be hidden: the practice
// cluster would seem to have another dialect, and a practice job could reach a real
// queue.
var realSchedulers = []string{
	"sbatch", "srun", "salloc", "squeue", "scontrol", "sacct", "sacctmgr", "scancel", "sinfo", "sstat", "sprio", "sshare",
	"qsub", "qstat", "qdel", "qselect", "qalter", "qhold", "qrls", "qrerun", "qmgr", "pbsnodes", "bsub", "bjobs",
}

// common are the programs that commands and job scripts may use.
var common = strings.Fields(`
awk base64 basename bash bunzip2 busybox bzip2 cat chmod cksum cmp comm cp curl cut dash date dd df diff dirname du echo
env expr false file find flock fold getent git git-receive-pack git-upload-pack grep egrep fgrep gunzip gzip head ip join kill less ln
locale ls lsof make md5sum mkdir mkfifo mktemp mv nc nice nl nohup nproc od openssl paste perl pgrep pkill printenv
printf ps pwd readlink realpath rev rm rmdir rsync scp sed seq setsid sftp sh sha1sum sha256sum shasum shuf sleep sort
split ss ssh stat stdbuf stty sync tac tail tar tee test timeout touch tput tr true truncate tsort tty uname uniq unlink
unxz unzip uptime wc wget which who xargs xz yes zcat zip
`)

// commonPrefixes are the rest of them, which come in many versions.
var commonPrefixes = []string{"jupyter", "ipython", "python", "pip"}

// searchPath is the student's PATH: the cluster's own programs, then the
// computer's. A folder with a real scheduler's programs is replaced by one of links
// to the common programs in it.
func (c *Cluster) searchPath(computers string) (string, error) {
	dirs := []string{c.binDir()}
	seen := map[string]bool{}
	for i, dir := range filepath.SplitList(computers) {
		target, err := filepath.EvalSymlinks(dir)
		if err != nil || seen[target] {
			continue
		}
		seen[target] = true
		if slices.ContainsFunc(realSchedulers, func(name string) bool { return exists(filepath.Join(dir, name)) }) {
			links := filepath.Join(c.linkDir(), strconv.Itoa(i))
			if err := linkCommon(dir, links); err != nil {
				return "", err
			}
			dir = links
		}
		dirs = append(dirs, dir)
	}
	return strings.Join(dirs, string(os.PathListSeparator)), nil
}

func exists(path string) bool {
	_, err := os.Stat(path) //nolint:gosec // the user's own PATH
	return err == nil
}

func linkCommon(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		isVersion := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if !slices.Contains(common, name) && !slices.ContainsFunc(commonPrefixes, isVersion) {
			continue
		}
		if err := os.Symlink(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}
