//go:build !windows

package tunnel

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
)

// slowSettings is a laptop whose ssh settings take for ever while the returned file is
// there, as a Match exec does that looks for a VPN.
func slowSettings(t *testing.T) (l *laptop, offline string) {
	t.Helper()
	l = newLaptop(t)
	s := startSSHD(t, sshtest.Authorized(l.key))
	l.know(t, s)
	offline = filepath.Join(l.dir, "offline")
	write(t, offline, "")
	limits := patientLimits()
	limits.SettingsTimeout, limits.RetryMin, limits.RetryMax = 2*time.Second, time.Hour, time.Hour
	l.serve(t, limits, fmt.Sprintf("Match originalhost open exec \"if test -e %s; then sleep 600; fi; true\"\n Port %d\n", offline, s.port))
	return l, offline
}

func TestSettingsThatTakeTooLongAreReadAgainWhenTheNetworkReturns(t *testing.T) {
	l, offline := slowSettings(t)
	l.o.Memory.Remember("open", func(k *api.Known) { k.Silent = true })
	h := l.Host("open")
	h.Want()
	eventually(t, func() bool { return h.Status().State != api.HostConnecting })
	if s := h.Status(); s.State != api.HostWaiting || !strings.Contains(s.Cause, "Match exec") {
		t.Errorf("while it hangs: %+v", s)
	}
	if err := os.Remove(offline); err != nil {
		t.Fatal(err)
	}
	l.NetworkChanged()
	again(t, h, time.Time{})
}
