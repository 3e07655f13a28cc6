//go:build unix

package nowindow

import "os/exec"

// Set does nothing: only Windows opens windows for programs of the command line.
func Set(*exec.Cmd) {}
