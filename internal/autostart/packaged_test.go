package autostart

import (
	"os/exec"
	"testing"

	"tunctl/internal/dev/testprogram"
)

func TestPackagedMenuEntry(t *testing.T) {
	validate := testprogram.Need(t, "desktop-file-validate")
	if out, err := exec.CommandContext(t.Context(), validate, "../../packaging/tunctl.desktop").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
