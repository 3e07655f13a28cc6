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
)

// slowSettings is a laptop whose ssh settings take for ever while the returned file is
// there, as a Match exec does that looks for a VPN.
func slowSettings(t *testing.T) (l *laptop, offline string) {
	t.Helper()
	l = newLaptop(t)
	s := startSSHD(t, authorized(l.key))
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
	l.o.Memory.SetSilent("open", true)
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

func TestSSHGIsToldApartBySpeedAndByWhatItSays(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		limit  time.Duration
		class  failureClass
		says   string
	}{
		"the person's settings take too long": {`case "$*" in *none*) exit 0;; esac; sleep 600`, 2 * time.Second, classPassing, "Match exec"},
		"the defaults take too long":          {`case "$*" in *none*) sleep 600;; esac`, 2 * time.Second, classPassing, "busy"},
		"a line is wrong":                     {`echo "config: line 1: Bad configuration option: foo" >&2; exit 255`, time.Minute, classPermanent, "Bad configuration option"},
		"a name cannot be looked up":          {`echo "ssh: Could not resolve hostname open: Temporary failure in name resolution" >&2; exit 255`, time.Minute, classPassing, "Temporary failure"},
		"it is killed":                        {`kill -9 $$`, time.Minute, classPassing, "killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &laptop{Pool: NewPool(Options{})}
			l.withProgram(t, tt.script+"\n")
			_, err := resolve(t.Context(), "open", resolveOptions{SSHConfig: "config", Env: l.o.Env(), Timeout: tt.limit})
			if classOf(err) != tt.class || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("class %d: %v", classOf(err), err)
			}
		})
	}
	_, err := resolve(t.Context(), "-oProxyCommand=x", resolveOptions{})
	if classOf(err) != classPermanent {
		t.Errorf("no destination: class %d: %v", classOf(err), err)
	}
}
