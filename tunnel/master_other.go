//go:build !linux

package tunnel

import "os/exec"

// killWithParent does nothing: only Linux can do that.
func killWithParent(*exec.Cmd) {}
