//go:build !unix

package lab

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

func terminateGroup(p *os.Process) error { return p.Kill() }

func killGroup(p *os.Process) error { return p.Kill() }

func exitSignal(*os.ProcessState) int { return 0 }

func groupAlive(*os.Process) bool { return false }

// startBroker has nothing to do: there are no shells that could call.
func (c *Cluster) startBroker() error { return nil }
