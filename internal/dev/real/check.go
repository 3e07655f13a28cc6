package real

import (
	"errors"
	"fmt"
	"os"
	osuser "os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// oldestSlurm is the oldest release whose commands the lab speaks.
const oldestSlurm = 22

// parts are the programs, files and system users by which a group of install.sh
// is known to be there.
var parts = map[string][]string{
	"build": {"make", "gcc", "git", "shellcheck", "python3"},
	"ssh": {
		"ip", "nft", "nsenter", "setpriv", "ssh", "/usr/sbin/sshd", "user:sshd", "/lib/*/security/pam_oath.so",
		"zsh", "fish", "tcsh", "vi", "/usr/lib/python3/dist-packages/asyncssh", "/usr/lib/python3/dist-packages/fabric",
	},
	"slurm": {
		"munged", "slurmctld", "slurmd", "slurmdbd", "sbatch", "sacct", "mariadbd", "user:munge", "user:slurm",
		pamSlurm, pamAdopt,
	},
	"gridengine": {"/usr/lib/gridengine/sge_qmaster", "/usr/lib/gridengine/sge_execd", "qsub", "qstat", "qacct", "qconf", "user:sgeadmin"},
	"jupyter":    {"jupyter", "jupyter-notebook", "jupyter-server"},
	"apps":       {"Xtigervnc", "tigervncpasswd", "websockify", "/usr/share/novnc/vnc.html", "openbox", "xterm", "R", "/usr/lib/R/site-library/shiny"},
	"browser":    {"chromium"},
	"desktop":    {"dbus-daemon", "Xvfb", "xfce4-panel", "dunst", "xdotool", "import", "convert", "zenity", "gnome-keyring-daemon", "desktop-file-validate"},
	"wine":       {"wine", "wineserver", "x86_64-w64-mingw32-as", "x86_64-w64-mingw32-ld"},
	"package":    {"dpkg", "dpkg-deb", "rpm", "lintian", "groff", "ruby", "/usr/bin/python3", "/usr/lib/python3*/ensurepip", "chroot", "unshare", "setpriv"},
}

// machine is what Check asks about.
type machine struct {
	system      string
	root        bool
	have        func(part string) bool
	version     func() (string, error) // of slurmctld
	tryNewRealm func() error           // starts a process in namespaces of its own
}

// Check says what this machine lacks for a lab, or for the named groups of
// install.sh, and how to fix that. It changes nothing.
func Check(groups ...string) error { return thisMachine().check(groups...) }

func (m machine) check(groups ...string) error {
	var lacking []string
	for _, g := range groups {
		if _, ok := parts[g]; !ok {
			return fmt.Errorf("no group %q of parts", g)
		}
	}
	if m.system != "linux" {
		return fmt.Errorf("real parts need Linux, this is %s: use a virtual machine with Debian 12 or 13", m.system)
	}
	for _, g := range groups {
		missing := slices.DeleteFunc(slices.Clone(parts[g]), m.have)
		if len(missing) > 0 {
			lacking = append(lacking, fmt.Sprintf("missing: %s: run internal/dev/install.sh %s", strings.Join(missing, ", "), g))
		}
	}
	if len(lacking) > 0 {
		return errors.New(strings.Join(lacking, "; "))
	}
	if slices.Contains(groups, "slurm") {
		if err := m.checkSlurm(); err != nil {
			return err
		}
	}
	if slices.Contains(groups, "ssh") {
		return m.checkRoot()
	}
	return nil
}

func (m machine) checkRoot() error {
	if !m.root {
		return errors.New("a lab needs root, for its network: run with sudo -E")
	}
	if err := m.tryNewRealm(); err != nil {
		return fmt.Errorf("no namespaces here: run in a virtual machine or a privileged container: %w", err)
	}
	return nil
}

var release = regexp.MustCompile(`\b(\d+)\.\d+`)

func (m machine) checkSlurm() error {
	text, err := m.version()
	if err != nil {
		return err
	}
	found := release.FindStringSubmatch(text)
	if found == nil {
		return fmt.Errorf("no version in %q of slurmctld -V", text)
	}
	if year, _ := strconv.Atoi(found[1]); year < oldestSlurm {
		return fmt.Errorf("%s is too old: Slurm %d or newer comes with Debian 12 or Ubuntu 24.04", strings.TrimSpace(text), oldestSlurm)
	}
	return nil
}

func thisMachine() machine {
	return machine{
		system:  runtime.GOOS,
		root:    os.Geteuid() == 0,
		have:    havePart,
		version: func() (string, error) { return run("", "slurmctld", "-V") },
		tryNewRealm: func() error {
			cmd := command(newNode, "", "")
			cmd.Path, cmd.Args = "/bin/true", []string{"true"}
			return cmd.Run()
		},
	}
}

// havePart looks for a program, a file by its pattern, or a system user.
func havePart(part string) bool {
	if name, ok := strings.CutPrefix(part, "user:"); ok {
		_, err := osuser.Lookup(name)
		return err == nil
	}
	if strings.HasPrefix(part, "/") {
		found, _ := filepath.Glob(part)
		return len(found) > 0
	}
	_, err := os.Stat(find(part))
	return err == nil
}
