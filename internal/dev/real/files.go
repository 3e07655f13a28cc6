package real

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
)

var (
	//go:embed slurm.conf
	slurmConf string
	//go:embed slurmdbd.conf
	slurmdbdConf string
)

// A GPU must name device files: with a count alone, Slurm 22.05 registers none.
const gresConf = "NodeName=cn02 Name=gpu Type=a100 File=/dev/null\nNodeName=cn02 Name=gpu Type=a100 File=/dev/zero\n"

const banner = "*** LAB CLUSTER ***\nAuthorised use only. All activity is logged.\n"

// file is one file of a node, as the node's pid 1 writes it over the machine's own.
type file struct {
	Path  string
	Owner string // root when empty
	Mode  os.FileMode
	Data  []byte
	Hide  bool // the node has no such program, although the machine may
}

// fileSet collects files; the first failure to make one is kept.
type fileSet struct {
	files []file
	err   error
}

func (s *fileSet) add(path string, mode os.FileMode, text string, err error) {
	s.files = append(s.files, file{Path: path, Mode: mode, Data: []byte(text)})
	s.err = cmp.Or(s.err, err)
}

func (s *fileSet) text(path, text string) { s.add(path, 0o644, text, nil) }

func (s *fileSet) own(owner string) { s.files[len(s.files)-1].Owner = owner }

// copy takes the text of a file of the machine, or of the lab's keys.
func (s *fileSet) copy(path string, mode os.FileMode, from string, change func(string) string) {
	text, err := os.ReadFile(from)
	s.add(path, mode, change(string(text)), err)
}

func same(text string) string { return text }

// nodeFiles is everything that makes the machine's /etc into the node's.
func (c *Cluster) nodeFiles(n node) ([]file, error) {
	s := &fileSet{}
	s.copy("/etc/passwd", 0o644, "/etc/passwd", func(t string) string { return withUsers(t, user.passwd) })
	s.copy("/etc/group", 0o644, "/etc/group", func(t string) string { return withUsers(t, user.group) })
	s.copy("/etc/shadow", 0o640, "/etc/shadow", func(t string) string { return withUsers(t, user.shadow) })
	s.copy("/etc/nsswitch.conf", 0o644, "/etc/nsswitch.conf", namesFromFiles)
	s.text("/etc/resolv.conf", "")
	s.text("/etc/hostname", n.name+"\n")
	s.text("/etc/hosts", c.plan.hosts())
	if n.slurm {
		c.slurmFiles(s, n)
	}
	if slices.Contains(sshNodes, n.name) {
		c.sshdFiles(s, n)
	}
	for _, program := range otherScheduler[c.options.scheduler()] {
		s.files = append(s.files, file{Path: "/usr/bin/" + program, Hide: true})
	}
	return s.files, s.err
}

// otherScheduler are the programs by which a login node would be taken for one with another
// scheduler, by the lab's own.
var otherScheduler = map[string][]string{"slurm": {"qsub", "qstat"}, "gridengine": {"sbatch", "squeue"}}

// namesFromFiles is nsswitch.conf without name services.
func namesFromFiles(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "hosts:") {
			line = "hosts: files\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// hosts is the cluster's /etc/hosts. A node's name is its address inside.
func (p plan) hosts() string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n")
	for _, n := range nodes {
		for _, at := range slices.Backward(n.ports) {
			fmt.Fprintf(&b, "%s %s.%s.lab", p.addr(at.net, at.host), n.name, at.net)
			if at == n.ports[len(n.ports)-1] {
				fmt.Fprintf(&b, " %s", n.name)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func (c *Cluster) slurmFiles(s *fileSet, n node) {
	text, err := render(slurmConf, struct {
		plan
		Options
	}{c.plan, c.options})
	s.add("/etc/slurm/slurm.conf", 0o644, text, err)
	s.text("/etc/slurm/gres.conf", gresConf)
	// slurmd looks for a cgroup plugin even where none is used; v2's needs systemd.
	s.text("/etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n")
	if n.name == "ctl" {
		s.add("/etc/slurm/slurmdbd.conf", 0o600, slurmdbdConf, nil)
		s.own("slurm")
	}
	s.copy("/etc/munge/munge.key", 0o400, c.keys().path("munge.key"), same)
	s.own("munge")
}

func (c *Cluster) sshdFiles(s *fileSet, n node) {
	s.text("/etc/ssh/lab_banner", banner)
	s.copy("/etc/ssh/lab_user_ca.pub", 0o644, c.keys().path("user_ca.pub"), same)
	s.add("/etc/security/users.oath", 0o600, oathUsers(), nil)
	for service, auth := range pamServices {
		switch {
		case c.options.Adopt: // it takes no other service than sshd for one unless told
			auth = strings.ReplaceAll(auth, pamSlurm, pamAdopt+" service="+service)
		case c.options.GridEngine: // its nodes ask nobody who may log in
			auth = strings.ReplaceAll(auth, pamSlurm, "pam_permit.so")
		}
		s.text("/etc/pam.d/"+service, auth+pamAll)
	}
	for _, d := range sshds {
		if d.node == n.name {
			text, err := d.serverConfig(c.plan)
			s.add(d.configFile(), 0o644, text, err)
		}
	}
	for _, f := range c.hostKeyFiles(n.name) {
		s.copy(f.inside, 0o600, f.outside, same)
	}
	if n.name == "login1" {
		s.copy("/etc/ssh/lab_ed25519-cert.pub", 0o644, c.keys().path(hostKeyName("login1", "ed25519")+"-cert.pub"), same)
	}
}

// hostKeyFile is where a host key is in its node, and where the lab keeps it.
type hostKeyFile struct{ kind, inside, outside string }

func (c *Cluster) hostKeyFiles(node string) []hostKeyFile {
	var files []hostKeyFile
	for _, kind := range hostKeyTypes(node) {
		files = append(files, hostKeyFile{kind, "/etc/ssh/lab_" + kind, c.keys().path(hostKeyName(node, kind))})
	}
	return files
}
