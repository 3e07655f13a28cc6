//go:build !linux

package openssh

import "os/exec"

// killWithParent does nothing: only Linux can do that.
func killWithParent(*exec.Cmd) {}
