package home

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"tunctl/internal/dev/must"
)

func TestFindMoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TUNCTL_HOME", dir)
	p, err := Find()
	must.Do(t, err)
	for _, path := range []string{p.Config, p.State, p.StateFile(), p.Log(), p.Lock(), p.DashboardLock()} {
		if !strings.HasPrefix(path, dir+string(filepath.Separator)) {
			t.Errorf("%q lies outside TUNCTL_HOME %q", path, dir)
		}
	}
	if !p.Moved {
		t.Error("Moved is false")
	}
}

func TestFindEndedDemo(t *testing.T) {
	t.Setenv("TUNCTL_HOME", filepath.Join(t.TempDir(), DemoFolder+"1", "home"))
	if _, err := Find(); err == nil || !strings.Contains(err.Error(), "the demo has ended: `unset TUNCTL_HOME`") {
		t.Errorf("err = %v", err)
	}
}

func TestXDGConfig(t *testing.T) {
	home := t.TempDir()
	if got := xdgConfig("relative", home); got != "" {
		t.Errorf("where nothing is: %q", got)
	}
	must.Do(t, os.MkdirAll(filepath.Join(home, ".config", "tunctl"), 0o700))
	if got := xdgConfig("", home); got != filepath.Join(home, ".config") {
		t.Errorf("where ~/.config/tunctl exists: %q", got)
	}
	if got := xdgConfig(filepath.Join(home, "xdg"), home); got != filepath.Join(home, "xdg") {
		t.Errorf("where XDG_CONFIG_HOME is set: %q", got)
	}
}

func TestSocketPathLong(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Setenv("TMP", `C:\T`)
	} else {
		t.Setenv("TMPDIR", "/tmp")
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	t.Setenv("TUNCTL_HOME", long)
	p, err := Find()
	must.Do(t, err)
	if len(p.Socket) > maxSocketPath {
		t.Errorf("socket path %q has %d bytes", p.Socket, len(p.Socket))
	}
	again, _ := Find()
	if again.Socket != p.Socket {
		t.Errorf("two looks gave %q and %q", p.Socket, again.Socket)
	}
	t.Setenv("TUNCTL_HOME", long+"y")
	if other, _ := Find(); other.Socket == p.Socket {
		t.Error("two homes share one socket")
	}
}

func TestDashboardPort(t *testing.T) {
	ports := map[int]bool{}
	for i := range 50 {
		p := In(filepath.Join("home", strconv.Itoa(i)))
		port := p.DashboardPort()
		if port != p.DashboardPort() || port < 27000 || port > 27999 {
			t.Errorf("the dashboard of %s has port %d", p.State, port)
		}
		ports[port] = true
	}
	if len(ports) < 40 {
		t.Errorf("50 homes share %d ports", len(ports))
	}
}

func TestMakePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("ACLs guard the folder on Windows")
	}
	dir := filepath.Join(t.TempDir(), "run")
	must.Do(t, os.Mkdir(dir, 0o755))
	must.Do(t, MakePrivate(dir))
	info, err := os.Stat(dir)
	must.Do(t, err)
	if perm := info.Mode().Perm(); perm != 0o700 {
		t.Errorf("mode = %o", perm)
	}
}

func TestMakePrivateLink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Skipf("no symlinks here: %v", err)
	}
	if err := MakePrivate(link); !errors.Is(err, ErrShared) {
		t.Errorf("err = %v, want ErrShared", err)
	}
}

func TestRunningBeforeBoot(t *testing.T) {
	for age, want := range map[time.Duration]bool{0: false, 20 * 365 * 24 * time.Hour: true} {
		if got := (Running{Since: time.Now().Add(-age)}).BeforeBoot(); got != want {
			t.Errorf("an agent that started %s ago: %v", age, got)
		}
	}
}

func TestMachineOfAMac(t *testing.T) {
	const registry = `+-o MacBookPro18,3  <class IOPlatformExpertDevice, id 0x100000227, registered, matched, active, busy 0 (50110 ms), retain 37>
    {
      "IOPolledInterface" = "AppleARMWatchdogTimerHibernateHandler is not serializable"
      "IOPlatformUUID" = "2B8C5A4F-1111-5C0A-9E53-0D8F7A1B2C3D"
      "IOPlatformSerialNumber" = "C02XX0XXXXXX"
    }
`
	if got, want := platformUUID(registry), "2B8C5A4F-1111-5C0A-9E53-0D8F7A1B2C3D"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := platformUUID("ioreg: error"); got != "" {
		t.Errorf("without one: %q", got)
	}
}

func TestMachine(t *testing.T) {
	if first, second := machine(), machine(); first != second || len(first) != 10 {
		t.Errorf("%q and then %q", first, second)
	}
}
