package autostart

import (
	"os"
	"os/exec"
	"testing"

	"tunctl/internal/dev/testprogram"
)

func TestThePackagedUnitIsTheOneWrittenAtAutostartOn(t *testing.T) {
	packaged, err := os.ReadFile("../../packaging/tunctl.service")
	if err != nil {
		t.Fatal(err)
	}
	if want := unitText(Agent, "/usr/bin/tunctl"); string(packaged) != want {
		t.Errorf("packaging/tunctl.service is\n%s\nwant\n%s", packaged, want)
	}
}

func TestThePackagedMenuEntryIsAGoodOne(t *testing.T) {
	validate := testprogram.Need(t, "desktop-file-validate")
	if out, err := exec.CommandContext(t.Context(), validate, "../../packaging/tunctl.desktop").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
