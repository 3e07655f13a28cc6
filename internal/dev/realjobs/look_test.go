//go:build linux

package realjobs

import (
	"slices"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/jobwatch"
)

// testLook looks at a real Slurm, from several login shells.
func testLook(t *testing.T) {
	lab := real.StartWith(t, real.Options{Accounting: true})
	for user, accounts := range map[string][]string{"hpcuser": {"proj1", "proj2"}, "tcshuser": {"proj1"}, "zshuser": {"proj1"}} {
		l := append(login{"-l", user}, labLogin(lab)...)
		look, err := jobwatch.NewWatcher(l, jobwatch.Options{}).Discover(t.Context())
		if err != nil {
			t.Errorf("%s: %v", user, err)
			continue
		}
		var got, partitions []string
		for _, a := range look.Accounts {
			got = append(got, a.Name)
		}
		for _, p := range look.Partitions {
			partitions = append(partitions, p.Name)
		}
		if look.Scheduler != "slurm" || look.User != user || !slices.Equal(got, accounts) || !look.Accounts[0].Default || len(look.Problems) > 0 {
			t.Errorf("%s: %+v", user, look)
		}
		if want := []string{"normal", "low", "lowc", "gpu", "debug"}; !slices.Equal(partitions, want) {
			t.Errorf("%s may use %v, want %v", user, partitions, want)
			continue
		}
		if p := look.Partitions[3]; p.LimitSeconds != 4*3600 || p.GPUs != 2 || !p.GPUOnly || !slices.Equal(p.GPUTypes, []string{"a100"}) || p.NodeMB != 4000 || p.CPUs != 4 {
			t.Errorf("%s: %+v", user, p)
		}
		script := func(s api.JobScript) bool { return s.Path == "/home/"+user+"/jupyter.sh" && s.Job == "jupyterlab" }
		if len(look.Scripts) != 2 || !script(look.Scripts[0]) {
			t.Errorf("%s: scripts %+v", user, look.Scripts)
		}
	}
}
