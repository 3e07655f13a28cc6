//go:build !unix

package lab

import (
	"os"
	"os/exec"
)

// hasShell: what the PATH of Windows has by that name may be another system altogether.
const hasShell = false

func ownGroup(*exec.Cmd) {}

func terminateGroup(p *os.Process) error { return p.Kill() }

func killGroup(p *os.Process) error { return p.Kill() }

func exitSignal(*os.ProcessState) int { return 0 }

func groupAlive(*os.Process) bool { return false }

// startBroker has nothing to do: there are no shells that could call.
func (c *Cluster) startBroker() error { return nil }
