package real

import (
	"strings"
	"testing"
)

func TestALaptopsFaultsAreItsOwn(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	disk := t.TempDir()
	x := lab.Laptop(disk)
	write := func(name string) string { // another each time: a file that is written anew makes room for itself
		out, _ := x.Command(t.Context(), "sh", "-c", `echo text | cat >"$1/$2"`, "sh", disk, name).CombinedOutput()
		return string(out)
	}
	lookup := func() string {
		out, _ := x.Command(t.Context(), "getent", "hosts", "login1.lab.test").Output()
		return string(out)
	}
	if said := write("file"); said != "" {
		t.Errorf("a write says %q", said)
	}
	if text, err := x.DiskFile("file"); err != nil || string(text) != "text\n" {
		t.Errorf("what was written is %q, %v", text, err)
	}
	x.FillDisk()
	if said := write("full"); !strings.Contains(said, "No space left on device") {
		t.Errorf("a write to a full disk says %q", said)
	}
	x.FreeDisk()
	x.LockDisk()
	if said := write("locked"); !strings.Contains(said, "Read-only file system") {
		t.Errorf("a write to a read-only disk says %q", said)
	}
	x.UnlockDisk()
	if said := write("repaired"); said != "" {
		t.Errorf("a write to a repaired disk says %q", said)
	}
	if said := lookup(); !strings.HasPrefix(said, lab.NodeAddr("login1")) {
		t.Errorf("the login node's name means %q", said)
	}
	x.SilenceNames()
	if said := lookup(); said != "" {
		t.Errorf("without a name service it means %q", said)
	}
	x.AnswerNames()
	if said := lookup(); said == "" {
		t.Error("the name service does not come back")
	}
}
