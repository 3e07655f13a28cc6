//go:build unix

package ptytest

import (
	"os/exec"
	"testing"
)

func TestAProgramIsTalkedWithInOrder(t *testing.T) {
	p := Start(t, exec.CommandContext(t.Context(), "sh", "-c", `printf 'who? '; read -r name; echo "hello $name"; exit 3`))
	p.Expect("who? ")
	p.Answer("ann")
	p.Expect("hello ann")
	if code, output := p.End(); code != 3 || output == "" {
		t.Errorf("exit code %d:\n%s", code, output)
	}
}
