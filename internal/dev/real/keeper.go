package real

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"tunctl/internal/dev/wait"
)

// roleName is argv[0] of the processes that a lab is made of. They are this
// program again: see Role.
const roleName = "tunctl-lab"

// Role runs the part of a lab that this process was started as, and does not
// return then. Every program that starts labs calls it first.
func Role() {
	if len(os.Args) < 3 || os.Args[0] != roleName {
		return
	}
	if err := runRole(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		// Whoever started us reads one line.
		fmt.Println(strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
	os.Exit(0)
}

// spawn starts a part of the lab and waits until it is ready. Input is what it reads
// first; logs go to a file of the lab.
func (c *Cluster) spawn(cmd *exec.Cmd, input io.Reader, logFile string) (process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return process{}, err
	}
	defer func() { _ = log.Close() }()
	// Not our own output: "go test" would wait for the last process that has it.
	cmd.Stdin, cmd.Stderr = input, log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return process{}, err
	}
	if err := cmd.Start(); err != nil {
		return process{}, err
	}
	c.own = append(c.own, cmd)
	p, err := lookup(cmd.Process.Pid)
	if err != nil {
		return process{}, err
	}
	return p, awaitReady(out)
}

const (
	ready       = "ready" // a part of the lab prints this when it is
	keepRunning = "k"     // the owner sends this to the keeper: keep the lab without me
)

func awaitReady(out io.ReadCloser) error {
	defer func() { _ = out.Close() }()
	if f, ok := out.(*os.File); ok {
		_ = f.SetReadDeadline(time.Now().Add(wait.Limit))
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	switch line = strings.TrimSpace(line); {
	case line == ready:
		return nil
	case line != "":
		return errors.New(line)
	default:
		return fmt.Errorf("a part of the lab said nothing: %w", err)
	}
}

// startKeeper starts the process whose network is the switch.
func (c *Cluster) startKeeper() error {
	if err := makeFIFO(c.path("life")); err != nil {
		return err
	}
	machine, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return err
	}
	defer func() { _ = machine.Close() }()
	held, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	c.ownerPipe = ours

	cmd := command(newNetwork, "keeper", c.dir)
	cmd.ExtraFiles = []*os.File{machine}
	c.record.Keeper, err = c.spawn(cmd, held, c.path("keeper.log"))
	if err != nil {
		return fmt.Errorf("start the switch: %w", err)
	}
	return c.save()
}
