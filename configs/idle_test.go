package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/dev/testprogram"
)

// idleServer is a Jupyter server of which a test says what its API tells. It ends after some questions.
const idleServer = `
import http.server, json, os, sys
asked = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        asked += 1
        if asked > 60:
            print("asked often enough", flush=True)
            os._exit(0)
        kernels = [{"id": "k", "execution_state": "idle", "last_activity": "2026-11-19T00:00:00.5Z"}]
        terminals, case = [], os.environ["CASE"]
        if case == "busy":
            kernels[0]["execution_state"] = "busy"
        if case == "active":
            kernels[0]["last_activity"] = str(asked)
        if case == "prints":
            terminals = [{"name": "1", "last_activity": str(asked)}]
        status = 200 if self.headers["Authorization"] == "token T" else 403
        if case == "unreadable" and "kernels" in self.path:
            status = 500
        if case == "no terminals" and "terminals" in self.path:
            status = 404
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(terminals if "terminals" in self.path else kernels).encode())
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", int(os.environ["port"])), Handler)
folder = os.environ["JUPYTER_RUNTIME_DIR"]
with open(folder + "/new", "w") as f:
    json.dump({"hostname": "127.0.0.1", "port": server.server_port, "base_url": "/", "token": "T"}, f)
os.rename(folder + "/new", folder + "/jpserver-1.json")
server.serve_forever()
`

func TestEndIdle(t *testing.T) {
	python := testprogram.Need(t, "python3")
	server := filepath.Join(t.TempDir(), "server.py")
	if err := os.WriteFile(server, []byte(idleServer), 0o600); err != nil {
		t.Fatal(err)
	}
	const ended, often = "tunctl: the job ended after 0 minutes without use (end_idle)", "asked often enough"
	for name, want := range map[string]string{
		"idle": ended, "no terminals": ended, "busy": often, "active": often, "prints": often, "unreadable": often, "several": often,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := siteJob(t, "slurm", map[string]string{})
			j.EndIdle = time.Second
			nodes := "1"
			if name == "several" {
				nodes = "2"
			}
			out := scripted(t, j, map[string]string{
				"jupyter": `case $* in *--version*) echo 4.0.0; exit ;; esac
[ "$CASE" != several ] || { echo "` + often + `"; exit; }
exec python3 ` + server,
				// Relays of other tests have this user, too.
				"python3": `[ "$1" = - ] || exec ` + python + ` "$@"
shift
exec ` + python + ` -c 'import os, sys; os.getuid = lambda: 424242; exec(sys.stdin.read())' "$@"`,
			}, "CASE="+name, "SLURM_JOB_NUM_NODES="+nodes)
			wantAll(t, out, want)
			if (want == ended) != strings.Contains(out, "without use") || want == ended && !strings.Contains(out, "not used; the job ends at 2") {
				t.Error(out)
			}
			if name == "unreadable" {
				wantAll(t, out, "the job is not ended, since this cannot be read: HTTP Error 500")
			}
		})
	}
}
