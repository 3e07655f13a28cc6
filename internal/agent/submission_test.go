package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/lab"
)

// site writes a site called "strict" with these lines, and a config whose host has it.
func (w *world) site(lines, session string) {
	w.t.Helper()
	w.write(filepath.Join(configs.SitesFolder(w.paths.Config), "strict.toml"), "like = \"slurm\"\ntitle = \"Strict\"\n"+lines)
	w.write(w.paths.Config, "[host.practice]\nsite = \"strict\"\n[session.jupyter]\nhost = \"practice\"\n"+session)
	must(w.t, w.client.Reload(w.t.Context()))
}

func TestSite(t *testing.T) {
	t.Parallel()
	t.Run("has what it requires checked before a job is submitted", func(t *testing.T) {
		w := newWorld(t)
		script := strings.Replace(lab.JobScript(lab.Slurm), "#SBATCH", "#SBATCH --constraint=gpu\n#SBATCH", 1)
		w.write(filepath.Join(w.cluster.Home(), "constrained.sh"), script)
		refused := func(require, session string, want ...string) {
			t.Helper()
			w.site("require = ["+require+"]\n", session)
			_, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"})
			must(t, err)
			s := w.until("failed", failed)
			for _, text := range want {
				if !strings.Contains(s.Cause+" "+s.Hint, text) {
					t.Errorf("%q is missing in %q, %q", text, s.Cause, s.Hint)
				}
			}
		}
		refused(`"--constraint=gpu"`, "submit = \"~/jupyter.sh\"\n", "nothing was submitted: site strict refuses jobs without --constraint=gpu", "~/jupyter.sh", `args = ["--constraint=gpu"]`)
		refused(`"--constraint=gpu", "-l filesystems=home"`, "submit = \"~/constrained.sh\"\n", "without -l filesystems=home", `args = ["-l", "filesystems=home"]`)
		refused(`"--constraint=gpu"`, "submit = \"builtin:jupyter\"\n", "without --constraint=gpu", "[session.jupyter]")
		refused(`"--account=PROJECT"`, "submit = \"builtin:jupyter\"\n", "without --account=PROJECT", "set account in with = { … } of [session.jupyter]")
		if list, err := w.client.Jobs(t.Context(), "practice", true); err != nil || len(list.Jobs) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		w.site("require = [\"--constraint=gpu\"]\n", "submit = \"~/constrained.sh\"\n")
		w.up()
	})
	t.Run("has a private folder for scripts, tokens and runtime files", func(t *testing.T) {
		w := newWorld(t)
		root := filepath.Join(w.cluster.Home(), "work/.tunctl")
		w.site("private = \"~/work/.tunctl\"\n", "submit = \"~/jupyter.sh\"\n")
		w.up()
		if info, err := os.Stat(root); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
		if copies, _ := filepath.Glob(filepath.Join(root, "*/jupyter.sh")); len(copies) != 1 {
			t.Errorf("copies of the script: %q", copies)
		}
		if _, err := os.Stat(filepath.Join(w.cluster.Home(), ".tunctl")); err == nil {
			t.Error("something was written to ~/.tunctl")
		}
	})
	t.Run("has names for nodes that are dialled", func(t *testing.T) {
		w := newWorld(t)
		w.site("dial = [\"{node}-nmn\", \"{node}.practice\"]\n", "submit = \"~/jupyter.sh\"\n")
		if s := w.up(); s.Endpoint == nil || s.Endpoint.Host != s.Job.Node+".practice" {
			t.Errorf("%+v", s.Endpoint)
		}
		w.opens()
	})
}
