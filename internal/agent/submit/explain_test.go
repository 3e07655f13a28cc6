package submit

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/remote"
)

// noHost cannot be reached: what is known suffices.
type noHost struct{ remote.Runner }

func (noHost) Run(context.Context, string, []byte) (remote.Result, error) {
	return remote.Result{}, errors.New("a command was run")
}

func TestExplain(t *testing.T) {
	dir := t.TempDir()
	site := "title = \"T\"\nscheduler = \"slurm\"\nqueue.inter = { batch = false }\nqueue.long = { limit = \"48h\" }\n" +
		"question.partition = { ask = \"Which?\", kind = \"queue\", default = \"long\" }\n[job]\ndirectives = [\"#SBATCH --partition={{.partition}}\"]\n"
	if err := os.WriteFile(filepath.Join(dir, "t.toml"), []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	sites, err := configs.LoadSites(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	jobs := jobwatch.NewWatcher(noHost{}, jobwatch.Options{Scheduler: "slurm"})
	refused := func(message, hint string) error {
		return api.Errorf(api.CodeSubmit, "%s", message).WithHint("%s", hint)
	}
	for name, tt := range map[string]struct {
		submit string
		err    error
		want   string
	}{
		"a partition without batch jobs": {
			"builtin:jupyter", refused("Batch jobs cannot use the inter partition", "this partition takes no batch jobs: choose another with --partition"),
			"this partition takes no batch jobs; choose another queue: set partition to \"long\" in with = { … } of [session.nb]",
		},
		"of a script": {"~/nb.sh", refused("no", "choose another with --partition"), "choose another with --partition"},
		"an answer":   {"builtin:jupyter", refused("no", "set --partition in args of the session or in the script"), "set partition; change partition in with = { … } of [session.nb]"},
		"no answer":   {"builtin:jupyter", refused("no", "ask the site"), "ask the site"},
		"no refusal":  {"builtin:jupyter", api.Errorf(api.CodeFailed, "--partition").WithHint("as it was"), "as it was"},
	} {
		s := &Source{Session: configs.Session{Name: "nb", Host: "hpc", Submit: tt.submit}, Section: "nb", Host: configs.Host{Site: "t"}, Sites: sites, Log: slog.New(slog.DiscardHandler)}
		e, ok := errors.AsType[*api.Error](s.explain(t.Context(), jobs, tt.err))
		if !ok || !strings.HasPrefix(e.Hint, tt.want) || strings.Count(e.Hint, "--partition") > 1 {
			t.Errorf("%s: %q, want %q", name, e.Hint, tt.want)
		}
	}
}
