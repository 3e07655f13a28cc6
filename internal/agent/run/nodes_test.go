package run

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tunctl/configs"
)

// strictSite has names of its own for nodes.
const strictSite = `title = "Strict"
scheduler = "slurm"
dial = ["{node}-nmn", "{node}.hsn.example.org"]
[entrance.main]
host = "login.strict.example"
`

func TestASitesNamesForANodeAreDialledFirst(t *testing.T) {
	r, owner := newRun(t)
	owner.Session.Host = "strict"
	folder := configs.SitesFolder(owner.Settings.Config().Path)
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "strict.toml"), []byte(strictSite), 0o600)); err != nil {
		t.Fatal(err)
	}
	owner.Configure(t, "[host.strict]\nsite = \"strict\"\n[session.jupyter]\nhost = \"strict\"\nsubmit = \"~/j.sh\"\n")
	for _, c := range []struct {
		announced, node string
		want            []string
	}{
		{"cn01.int", "cn01", []string{"cn01-nmn", "cn01.hsn.example.org", "cn01.int", "cn01"}},
		{"127.0.0.1", "cn01.int", []string{"cn01-nmn", "cn01.hsn.example.org", "cn01.int", "cn01"}},
		{"10.253.1.2", "cn01", []string{"10.253.1.2", "cn01-nmn", "cn01.hsn.example.org", "cn01"}}, // the job knows its address
		{"cn02", "", []string{"cn02-nmn", "cn02.hsn.example.org", "cn02"}},
	} {
		got := r.nodes.DialNames(t.Context(), c.announced, c.node, time.Now())
		if !slices.Equal(got[:len(c.want)], c.want) {
			t.Errorf("%q on %q: %q, want %q", c.announced, c.node, got, c.want)
		}
	}
}
