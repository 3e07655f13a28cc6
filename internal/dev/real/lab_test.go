package real

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tunctl/internal/dev/wait"

	"go.uber.org/goleak"
)

// holdLab makes a process of this test binary one that starts a lab of this name,
// says how that went, and waits to be killed.
const holdLab = "TUNCTL_TEST_HOLD_LAB"

func TestMain(m *testing.M) {
	Role()
	if name := os.Getenv(holdLab); name != "" {
		_, err := Up(name, false, Options{})
		fmt.Println(err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	code := Main(m)
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// common is what all labs of the machine could leave: other tests may run at
// the same time, but none of them has these.
func common(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, argv := range [][]string{{"ip", "netns", "list"}, {"nft", "list", "ruleset"}, {"cat", "/proc/self/mountinfo"}} {
		out, err := run("", argv...)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(out)
	}
	return b.String()
}

// footprint is what one lab is on the machine.
type footprint struct {
	record
	dir    string
	spaces []string // its network namespaces
	newest uint64   // when its last process was started: a later lab may get the numbers of its namespaces
}

func footprintOf(t *testing.T, name string) footprint {
	t.Helper()
	f := footprint{dir: filepath.Join(base(), name)}
	var err error
	if f.record, err = readRecord(f.dir); err != nil {
		t.Fatal(err)
	}
	for _, p := range append(slices.Collect(maps.Values(f.Nodes)), f.Keeper) {
		space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		f.spaces = append(f.spaces, space)
	}
	f.newest = math.MaxUint64
	all := f.processes()
	if len(all) < len(nodes) {
		t.Fatalf("a lab that is up has only %v", all)
	}
	f.newest = slices.MaxFunc(all, func(a, b stat) int { return cmp.Compare(a.start, b.start) }).start
	return f
}

// processes are those of the lab.
func (f footprint) processes() (found []stat) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		space, err := os.Readlink(filepath.Join(dir, "ns/net"))
		if err != nil || !slices.Contains(f.spaces, space) {
			continue
		}
		if s, err := readStat(dir); err == nil && s.start <= f.newest {
			found = append(found, s)
		}
	}
	return found
}

// left is what there is of the lab: processes, device, routes, control groups, folder.
func (f footprint) left() []string {
	var found []string
	for _, s := range f.processes() {
		found = append(found, "process "+s.name)
	}
	for _, argv := range [][]string{
		{"ip", "-o", "link", "show", f.device()},
		{"ip", "-o", "link", "show", f.delayed()},
		{"ip", "route", "show", "root", f.prefix().String()},
	} {
		if out, err := run("", argv...); err == nil && out != "" {
			found = append(found, out)
		}
	}
	groups, _ := filepath.Glob(cgroup(f.dir, "*"))
	found = append(found, groups...)
	if _, err := os.Stat(f.dir); err == nil {
		found = append(found, f.dir)
	}
	return found
}

// hold starts a lab in another process.
func hold(t *testing.T, name string) (*exec.Cmd, footprint) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), holdLab+"="+name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "<nil>" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return cmd, footprintOf(t, name)
}

// The three tests about what a lab leaves have the slots for themselves: another lab
// could take the one that was just given back.

func TestLabLeavesNothingBehind(t *testing.T) {
	Need(t, "ssh", "slurm")
	before := common(t)
	c, err := Up("leaves-nothing", false, Options{Adopt: isFolder(freezer)})
	if err != nil {
		t.Fatal(err)
	}
	lab := &Lab{t, c}
	isClosed(t, lab)
	_, submitted := c.Submit("#!/bin/sh\nsleep 600\n")
	const rtt = 300 * time.Millisecond
	if err := cmp.Or(submitted, c.Delay(rtt, 0)); err != nil {
		t.Error(err)
	}
	began := time.Now()
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(lab.NodeAddr("login1"), "22"), wait.Limit)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if took := time.Since(began); took < rtt {
		t.Errorf("a connection took %v with a round trip of %v", took, rtt)
	}
	if err := cmp.Or(c.Cut("silent"), c.Crash("cn01"), c.Boot("cn01")); err != nil {
		t.Error(err)
	}
	f := footprintOf(t, "leaves-nothing")
	if err := c.Down(); err != nil {
		t.Error(err)
	}
	if left := f.left(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if after := common(t); after != before {
		t.Errorf("namespaces, mounts or firewall before:\n%s\nand after:\n%s", before, after)
	}
	isUnreachable(t, net.JoinHostPort(f.main(nodes[1]).String(), "22"))
}

// isUnreachable checks that this machine itself refuses to send anything to an address. Without
// a route it would say that the network is unreachable, and with a default route nothing at all.
func isUnreachable(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, wait.Limit)
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("a client of a lab that has ended dials %s: %v", addr, err)
	}
}

// isClosed checks that a laptop gets no further than to the login nodes, and a jump host to
// where it leads.
func isClosed(t *testing.T, lab *Lab) {
	t.Helper()
	for _, node := range []string{"cn01", "cn02", "ctl"} {
		addr := net.JoinHostPort(lab.NodeAddr(node), "22")
		if conn, err := net.DialTimeout("tcp", addr, 500*time.Millisecond); err == nil {
			_ = conn.Close()
			t.Errorf("the laptop reaches %s at %s", node, addr)
		}
	}
	out, err := run("", "ssh", "-F", lab.SSHConfig(), "-W", lab.NodeAddr("login1")+":22", "lab-jump")
	if err == nil || !strings.Contains(err.Error(), "administratively prohibited") {
		t.Errorf("forwarding through lab-jump to elsewhere: %q, %v", out, err)
	}
}

func TestKilledOwnerTakesTheLabAlong(t *testing.T) {
	Need(t, "ssh", "slurm")
	owner, f := hold(t, "killed-owner")
	if c, err := Up("killed-owner", false, Options{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second lab of the same name: %v", err)
		if err == nil {
			_ = c.Down()
		}
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !poll(func() bool { return len(f.left()) == 0 }) {
		t.Errorf("left: %q", f.left())
	}
}

func TestNextLabClearsWhatAKilledKeeperLeft(t *testing.T) {
	Need(t, "ssh", "slurm")
	owner, f := hold(t, "killed-keeper")
	// The keeper first: it would still tidy up after its owner.
	if err := f.Keeper.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	noProcess := func() bool {
		return !slices.ContainsFunc(f.left(), func(s string) bool { return strings.HasPrefix(s, "process") })
	}
	if !poll(noProcess) {
		t.Errorf("nodes outlive their keeper: %q", f.left())
	}
	if err := clearLeftovers(); err != nil {
		t.Error(err)
	}
	if left := f.left(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
