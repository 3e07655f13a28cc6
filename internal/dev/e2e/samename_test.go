package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

func TestTwoNotebooksWithoutLogsOnOneNodeAreToldApartOnRealSlurm(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	l := newQuietLaptop(t, "")
	ports := map[string]int{}
	var ids []string
	for i, port := range []int{21001, 21002} {
		script := fmt.Sprintf("exec jupyter notebook --no-browser --ip=0.0.0.0 --port=%d", port)
		out, err := l.lab.As("hpcuser", "sbatch", "--parsable", fmt.Sprintf("--job-name=twin%d", i), "--output=/dev/null", "--nodelist=cn01", "--mem=300M", "--time=10", "--wrap="+script)
		if err != nil {
			t.Fatal(err, out)
		}
		id := strings.TrimSpace(out)
		ids, ports[id] = append(ids, id), port
	}
	defer func() { _, _ = l.lab.As("hpcuser", append([]string{"scancel"}, ids...)...) }()
	for range 600 { // both serve before anybody looks
		out, _ := l.lab.As("hpcuser", "sh", "-c", "ls ~/.local/share/jupyter/runtime/*server-*.json | wc -l")
		if strings.TrimSpace(out) == "2" {
			break
		}
	}
	for _, id := range ids {
		_, talk := l.run("attach", "lab-login", id, "--no-open")
		t.Logf("what a person sees:\n%s", talk)
	}
	out, _ := l.run("status", "--json")
	var status api.Status
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, id := range ids {
		s, _ := status.Session("lab-login-" + id)
		if s.Endpoint == nil || s.Endpoint.Port != ports[id] {
			t.Errorf("job %s, which serves on port %d: %+v", id, ports[id], s.Endpoint)
		}
	}
}
