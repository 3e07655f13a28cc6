//go:build unix

package ptytest

import (
	"os/exec"
	"testing"
)

func TestAProgramIsTalkedWithInOrder(t *testing.T) {
	k := Start(t, exec.CommandContext(t.Context(), "sh", "-c", `printf 'who? '; read -r name; echo "hello $name"; exit 3`))
	k.Expect("who? ")
	k.Answer("ann")
	k.Expect("hello ann")
	if code, said := k.End(); code != 3 || said == "" {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}
