package real

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestCheckNamesTheThingAndTheFix(t *testing.T) {
	whole := machine{
		system: "linux", root: true,
		have:        func(string) bool { return true },
		version:     func() (string, error) { return "slurm-wlm 22.05.8\n", nil },
		tryNewRealm: func() error { return nil },
	}
	without := func(missing ...string) func(string) bool {
		return func(part string) bool { return !strings.Contains(" "+strings.Join(missing, " ")+" ", " "+part+" ") }
	}
	for _, x := range []struct {
		name  string
		spoil func(*machine)
		says  []string
	}{
		{"whole machine", func(*machine) {}, nil},
		{"another system", func(m *machine) { m.system = "darwin" }, []string{"Linux", "darwin", "virtual machine"}},
		{"a person", func(m *machine) { m.root = false }, []string{"root", "sudo"}},
		{"half installed", func(m *machine) { m.have = without("slurmd", "munged") }, []string{"munged, slurmd", "install.sh slurm"}},
		{"no sshd", func(m *machine) { m.have = without("/usr/sbin/sshd") }, []string{"/usr/sbin/sshd", "install.sh ssh"}},
		{"old Slurm", func(m *machine) { m.version = func() (string, error) { return "slurm-wlm 20.11.4", nil } }, []string{"20.11.4", "too old", "Debian 12"}},
		{"no namespaces", func(m *machine) { m.tryNewRealm = func() error { return errors.New("operation not permitted") } }, []string{"namespaces", "not permitted", "privileged"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			m := whole
			x.spoil(&m)
			err := m.check("ssh", "slurm")
			if len(x.says) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("said %v; want one line", err)
			}
			for _, word := range x.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("said %q; want %q in it", err, word)
				}
			}
		})
	}
}

func TestCheckRefusesAGroupItDoesNotKnow(t *testing.T) {
	if err := Check("kitchen"); err == nil || !strings.Contains(err.Error(), "kitchen") {
		t.Error(err)
	}
}

func TestInstallerHasTheGroupsThatCheckKnows(t *testing.T) {
	text, err := os.ReadFile("../install.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\ngroups=\"")
	list, _, _ := strings.Cut(rest, "\"")
	if got, want := slices.Sorted(strings.FieldsSeq(list)), slices.Sorted(maps.Keys(parts)); !slices.Equal(got, want) {
		t.Errorf("install.sh has %q, Check knows %q", got, want)
	}
}
