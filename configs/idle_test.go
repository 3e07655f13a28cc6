package configs

import (
	"fmt"
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
        if case == "quiet terminal":
            terminals = [{"name": "1", "last_activity": "2026-11-19T00:00:00.5Z"}]
        if case == "open tab":
            kernels[0]["connections"] = 1
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

// idleServers stand for the servers that a job starts. Those that nothing asks end when it was looked often enough.
var idleServers = map[string]string{
	"jupyter": `case $* in *--version*) echo 4.0.0; exit ;; esac
[ "$CASE" != several ] || exit
[ "$CASE" != refuses ] || echo '{"hostname": "127.0.0.1", "port": 1, "base_url": "/", "token": "T"}' >"$JUPYTER_RUNTIME_DIR/jpserver-1.json"
case $CASE in
refuses | 'no address') until [ -e "$HOME/enough" ]; do sleep 0.05; done ;;
*) exec python3 "$IDLE_SERVER" ;;
esac`,
	"code-server": `mkdir -p "$HOME/.local/share/code-server"
[ "$CASE" = 'no heartbeat' ] || : >"$HOME/.local/share/code-server/heartbeat"
[ "$CASE" != terminal ] || python3 -c 'import pty; pty.spawn(["sh", "-c", "until test -e $HOME/enough; do sleep 0.05; done"])' &
until [ -e "$HOME/enough" ]; do sleep 0.05; done`,
}

// idleWatcher runs what the job's script has for end_idle, with another user, since relays of other tests have
// this one, and what it looks at as the case has it.
const idleWatcher = `
import glob, os, socket, sys
case, looks = os.environ["CASE"], 0
os.getuid = lambda: 424242 + (case == "inside")
if case == "inside":
    mark = socket.socket(socket.AF_UNIX)
    mark.bind("\0tunctl-inside-424243-1")
def counted(look, name, *rest, **options):
    global looks
    looks += 1
    if looks == 30:
        print("looked often enough", flush=True)
        os.close(os.open(os.environ["HOME"] + "/enough", os.O_CREAT))
    return look(name, *rest, **options)
def stat(name, *rest, look=os.stat, **options):
    used = {"heartbeat": "heartbeat", "terminal": "/dev/pts/"}.get(case)
    if used and used in str(name):
        os.utime(name, (looks, looks))
    return counted(look, name, *rest, **options) if "heartbeat" in str(name) else look(name, *rest, **options)
os.stat = stat
glob.glob = lambda name, look=glob.glob: counted(look, name)
def open(name, *rest, open=open):
    if case == "unreadable mark" and name == "/proc/net/unix":
        raise PermissionError(13, "denied")
    return open(name, *rest)
exec(sys.stdin.read())
`

func TestEndIdle(t *testing.T) {
	python := testprogram.Need(t, "python3")
	dir := t.TempDir()
	for name, text := range map[string]string{"server.py": idleServer, "watcher.py": idleWatcher} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const (
		ended, often, looked = "tunctl: the job ended after 0 minutes without use (end_idle)", "asked often enough", "looked often enough"
		unread               = "the job is not ended, since this cannot be read: "
	)
	for _, tt := range []struct{ app, name, want, said string }{
		{"jupyter", "idle", ended, ""},
		{"jupyter", "open tab", ended, ""},
		{"jupyter", "no terminals", ended, ""},
		{"jupyter", "quiet terminal", ended, ""},
		{"jupyter", "busy", looked, ""},
		{"jupyter", "active", looked, ""},
		{"jupyter", "prints", looked, ""},
		{"jupyter", "unreadable", often, unread + "HTTP Error 500"},
		{"jupyter", "refuses", looked, unread + "<urlopen error [Errno 111] Connection refused>"},
		{"jupyter", "no address", looked, unread + "the server has not written its address"},
		{"jupyter", "several", "a job of several nodes is not ended", ""},
		{"code-server", "idle", ended, ""},
		{"code-server", "heartbeat", looked, ""},
		{"code-server", "no heartbeat", looked, unread + "[Errno 2] No such file or directory"},
		{"code-server", "terminal", looked, ""},
		{"code-server", "inside", looked, ""},
		{"code-server", "unreadable mark", looked, unread + "[Errno 13] denied"},
	} {
		t.Run(tt.app+"/"+tt.name, func(t *testing.T) {
			t.Parallel()
			j := siteJob(t, "slurm", map[string]string{})
			j.App, j.EndIdle = tt.app, time.Second
			nodes := "1"
			if tt.name == "several" {
				nodes = "2"
			}
			out := scripted(t, j, map[string]string{
				tt.app:    idleServers[tt.app],
				"python3": fmt.Sprintf(`[ "$1" = - ] || exec %[1]s "$@"; shift; exec 3<&0; exec %[1]s -c "$(cat %[2]s)" "$@" <&3`, python, filepath.Join(dir, "watcher.py")),
			}, "CASE="+tt.name, "SLURM_JOB_NUM_NODES="+nodes, "IDLE_SERVER="+filepath.Join(dir, "server.py"))
			wantAll(t, out, tt.want, tt.said)
			if (tt.want == ended) != strings.Contains(out, "without use") || tt.want == ended && !strings.Contains(out, "not used; the job ends at 2") {
				t.Error(out)
			}
		})
	}
}
