package configs

import (
	"os/exec"
	"strings"
	"testing"
)

func TestThePrivateFolderIsTheConfigsElseTheSites(t *testing.T) {
	for _, c := range []struct{ host, site, want string }{
		{"", "", "$HOME/.tunctl"},
		{"", "~/x/.tunctl", "$HOME/x/.tunctl"},
		{"", "~/{user}/.tunctl", "$HOME/$(id -un)/.tunctl"},
		{"", "$WORK/{group}/.tunctl", "${WORK:?}/$(id -gn)/.tunctl"},
		{"", "/work/{group}/{user}/.tunctl", "/work/$(id -gn)/$(id -un)/.tunctl"},
		{"", "$SCRATCH/a/.tunctl", "${SCRATCH:?}/a/.tunctl"},
		{"/work/z19/.tunctl", "$SCRATCH/.tunctl", "/work/z19/.tunctl"},
	} {
		if got := (&Site{Private: c.site}).PrivateFolder(Host{Private: c.host}); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestAVariableThatIsNotSetIsNotTheRootFolder(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs sh")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `mkdir -p "`+(&Site{Private: "$NO_SUCH/.tunctl"}).PrivateFolder(Host{})+`"`)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "NO_SUCH") {
		t.Errorf("%v: %s", err, out)
	}
}
