package real

import (
	"encoding/json"
	"fmt"
	"os"
	osuser "os/user"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// runNode is pid 1 of a node: it makes the namespaces it was born into a machine
// of its own, with the files it is sent, and waits.
func runNode(dir, name string) error {
	life, err := lifeline(dir)
	if err != nil {
		return err
	}
	var files []file
	if err := json.NewDecoder(os.Stdin).Decode(&files); err != nil {
		return fmt.Errorf("read the node's files: %w", err)
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		return err
	}
	// A node is no router, whatever the machine is.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0); err != nil {
		return err
	}
	if err := mountNode(dir, filepath.Join(dir, "nodes", name)); err != nil {
		return err
	}
	for _, f := range files {
		if err := f.write(); err != nil {
			return err
		}
	}
	if err := makeRun(); err != nil {
		return err
	}
	if err := sayReady(); err != nil {
		return err
	}
	go endWith(life)
	reap()
	return nil
}

// mountNode covers what a node must not share with the machine. The order
// matters: the lab's folder is out of sight once /tmp is the node's own.
func mountNode(dir, own string) error {
	// Slave, so that what the machine unmounts is not held here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("leave the machine's mounts: %w", err)
	}
	releaseNetworks()
	memory := filepath.Join(own, "memory")
	if err := mountTmpfs(memory, "mode=755"); err != nil {
		return err
	}
	for _, top := range []string{"etc", "var"} {
		if err := mountOverlay("/"+top, filepath.Join(memory, top)); err != nil {
			return err
		}
	}
	for _, bind := range [][2]string{
		{filepath.Join(dir, "home"), "/home"},
		{filepath.Join(own, "log"), "/var/log"},
		{filepath.Join(own, "lib"), "/var/lib/lab"},
	} {
		if err := os.MkdirAll(bind[1], 0o755); err != nil {
			return err
		}
		if err := unix.Mount(bind[0], bind[1], "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", bind[1], err)
		}
	}
	if group := cgroup(dir, filepath.Base(own)); isFolder(group) {
		if err := unix.Mount(group, freezer, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount the node's control group: %w", err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, t := range [][2]string{{"/run", "mode=755"}, {"/dev/shm", "mode=1777"}, {"/tmp", "mode=1777"}} {
		if err := mountTmpfs(t[0], t[1]); err != nil {
			return err
		}
	}
	return os.Chdir("/")
}

// releaseNetworks lets go of named network namespaces, which a copy of their
// mounts would keep alive.
func releaseNetworks() {
	names, _ := filepath.Glob("/run/netns/*")
	for _, name := range append(names, "/run/netns") {
		_ = unix.Unmount(name, unix.MNT_DETACH)
	}
}

func mountTmpfs(dir, options string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		return fmt.Errorf("mount memory on %s: %w", dir, err)
	}
	return nil
}

func mountOverlay(dir, memory string) error {
	upper, work := filepath.Join(memory, "upper"), filepath.Join(memory, "work")
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work)
	if err := unix.Mount("overlay", dir, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount an overlay on %s: %w", dir, err)
	}
	return nil
}

// makeRun makes what daemons expect under /run, and the names by which each sshd
// gets its PAM service.
func makeRun() error {
	for dir, owner := range map[string]string{
		"/run/sshd": "", "/run/lab": "", "/run/lock": "", "/run/user": "",
		"/run/munge": "munge", "/run/slurm": "slurm", "/run/mysqld": "mysql",
		"/var/log/munge": "munge", "/var/log/slurm": "slurm", "/var/lib/munge": "munge",
		"/var/lib/lab/slurmctld": "slurm", "/var/lib/lab/slurmd": "slurm",
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := give(dir, owner); err != nil {
			return err
		}
	}
	for service := range pamServices {
		if err := os.Symlink("/usr/sbin/sshd", "/run/lab/"+service); err != nil {
			return err
		}
	}
	return nil
}

func (f file) write() error {
	if f.Hide {
		return f.hide()
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return err
	}
	// Replaced, not truncated: the machine's own may be a link to elsewhere.
	_ = os.Remove(f.Path)
	if err := os.WriteFile(f.Path, f.Data, f.Mode); err != nil {
		return err
	}
	return give(f.Path, f.Owner)
}

// hide covers a program of the machine with a file that cannot be run.
func (f file) hide() error {
	if _, err := os.Stat(f.Path); err != nil {
		return nil //nolint:nilerr // the machine has none
	}
	if err := unix.Mount("/dev/null", f.Path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("hide %s: %w", f.Path, err)
	}
	return nil
}

// give makes a system user the owner of a file, if the machine has such a user.
func give(path, owner string) error {
	if owner == "" {
		return nil
	}
	u, err := osuser.Lookup(owner)
	if err != nil {
		return nil //nolint:nilerr // a lab without accounting needs no mysql
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	return os.Chown(path, uid, gid)
}
