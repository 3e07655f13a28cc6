package detect

import (
	"testing"

	"tunctl/internal/api"
)

const (
	announcedDesktop = "tunctl: novnc will be at http://n003:12345/vnc.html (password in /home/ann smith/.tunctl/job.7/server.json)\n"
	announcedCommand = "tunctl: command will be at http://127.0.0.1:12345/\n"
)

func TestOurOwnJobsAnnounceTheirServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ log, want, file, others string }{
		"a desktop": {announcedDesktop, "novnc http://n003:12345/vnc.html reach=login doubt", "/home/ann smith/.tunctl/job.7/server.json", ""},
		"a desktop beside websockify's own words": {
			announcedDesktop + "WebSocket server settings:\n  - Listen on n003:12345\n  - Web server. Web root: /usr/share/novnc\n",
			"novnc http://n003:12345/vnc.html reach=login doubt", "/home/ann smith/.tunctl/job.7/server.json", "",
		},
		"on another port after the first was taken": {
			announcedDesktop + "tunctl: another process took port 12345; trying another one\n" +
				"tunctl: novnc will be at http://n003:12346/vnc.html (password in /home/ann/.tunctl/job.7/server.json)\n",
			"novnc http://n003:12346/vnc.html reach=login doubt", "/home/ann/.tunctl/job.7/server.json", "",
		},
		"TensorBoard": {
			"tunctl: tensorboard will be at http://127.0.0.1:12345/tb/\nTensorBoard 2.9.1 at http://127.0.0.1:12345/tb/ (Press CTRL+C to quit)\n",
			"tensorboard http://127.0.0.1:12345/tb/ reach=node node open=node", "", "",
		},
		"a command": {announcedCommand, "command http://127.0.0.1:12345/ reach=node node open=node", "", ""},
		"a command that is some web server": {
			announcedCommand + "INFO:     Uvicorn running on http://127.0.0.1:12345 (Press CTRL+C to quit)\n",
			"command http://127.0.0.1:12345/ reach=node node open=node", "", "",
		},
		"a command that says what it is": {
			announcedCommand + "  You can now view your Streamlit app in your browser.\n  Local URL: http://localhost:12345\n",
			"streamlit http://127.0.0.1:12345/ reach=node node open=node", "", "",
		},
		"a command on all addresses": {
			announcedCommand + "INFO 05-02 10:11:12 [api_server.py:1] Starting vLLM API server on http://0.0.0.0:12345\n",
			"vllm http://127.0.0.1:12345/ reach=node node open=node", "", "",
		},
		"a command with a token": {
			announcedCommand + "[I 2024-05-02 10:11:12.131 ServerApp] http://127.0.0.1:12345/lab?token=0123456789abcdef0123\n",
			"jupyter http://127.0.0.1:12345/lab token=0123456789abcdef0123 reach=node node", "", "",
		},
		"a command with a password": {
			announcedCommand + "RStudio Server is running on port 12345\nThe password is set to Zm9vYmFy\n",
			"rstudio http://127.0.0.1:12345/ login=:Zm9vYmFy reach=node node", "", "",
		},
		"a command that also starts a dashboard": {
			announcedCommand + "View the dashboard at http://n003:8265\n",
			"command http://127.0.0.1:12345/ reach=node node open=node", "", "ray",
		},
		"something else": {"tunctl: the sky will be at http://n003:1234/\n", "nothing", "", ""},
	} {
		d := New("")
		_, _ = d.Write([]byte(c.log))
		d.Flush()
		f := d.Finding()
		got := describe(f)
		if f.Exposure != "" {
			got += " open=" + string(f.Exposure)
		}
		if got != c.want || f.RuntimeFile != c.file || f.Doubt != (c.file != "") || f.Guess && f.Found {
			t.Errorf("%s: got %s, file %q, doubt %v, guess %v; want %s, %q", name, got, f.RuntimeFile, f.Doubt, f.Guess, c.want, c.file)
		}
		others := ""
		for _, o := range f.Others {
			others += o.Name
		}
		if others != c.others {
			t.Errorf("%s: besides it %q, want %q", name, others, c.others)
		}
	}
}

func TestACommandIsTheAppThatTheSessionNames(t *testing.T) {
	t.Parallel()
	const vllm = "INFO 05-02 10:11:12 [api_server.py:1] Starting vLLM API server on http://0.0.0.0:"
	for _, c := range []struct{ app, log, want string }{
		{"vllm", announcedCommand, "vllm http://127.0.0.1:12345/ reach=node node"},
		{"vllm", announcedCommand + vllm + "12345\n", "vllm http://127.0.0.1:12345/ reach=node node"},
		{"vllm", announcedCommand + vllm + "8000\n", "vllm http://0.0.0.0:8000/ reach=login node"},
		{"jupyter", announcedCommand + "[I 2024-05-02 10:11:12.131 ServerApp] http://127.0.0.1:12345/lab?token=0123456789abcdef0123\n", "jupyter http://127.0.0.1:12345/lab token=0123456789abcdef0123 reach=node node"},
		{"command", announcedCommand, "command http://127.0.0.1:12345/ reach=node node"},
		{"paraview", announcedCommand, "nothing"}, // its first connection would be its last
		{"mine", announcedCommand, "nothing"},     // which has patterns
		{"vllm", announcedDesktop, "nothing"},
	} {
		d := New(c.app)
		_, _ = d.Write([]byte(c.log))
		if got := describe(d.Finding()); got != c.want {
			t.Errorf("%s, %q: got %s, want %s", c.app, c.log, got, c.want)
		}
	}
}

func TestACommandWhoseTokenIsInItsRuntimeFileIsNotOpenToOthers(t *testing.T) {
	t.Parallel()
	d := New("")
	_, _ = d.Write([]byte(announcedCommand + "[I 2024-05-02 10:11:12.131 ServerApp] http://127.0.0.1:12345/lab\n"))
	d.Flush()
	e, err := ParseRuntimeFile([]byte(`{"hostname": "127.0.0.1", "port": 12345, "base_url": "/", "token": "0123"}`))
	if err != nil {
		t.Fatal(err)
	}
	before := d.Finding()
	if f := before.WithRuntime(e); before.Exposure != api.ExposureNode || f.Token.Reveal() != "0123" || f.Exposure != "" {
		t.Errorf("before: open to %q; with the file: token %q, open to %q", before.Exposure, f.Token.Reveal(), f.Exposure)
	}
}

func TestThePasswordOfOurOwnJobIsInItsFile(t *testing.T) {
	t.Parallel()
	d := New("novnc")
	_, _ = d.Write([]byte(announcedDesktop))
	e, err := ParseRuntimeFile([]byte(`{"app": "novnc", "hostname": "n003", "port": 12345, "base_url": "/vnc.html", "token": "AbCd-_12"}`))
	if err != nil {
		t.Fatal(err)
	}
	f := d.Finding().WithRuntime(e)
	if got, want := describe(f), "novnc http://n003:12345/vnc.html token=AbCd-_12 reach=login"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	form, err := ParseRuntimeFile([]byte(`{"app": "rstudio", "hostname": "n003", "port": 12345, "base_url": "/", "user": "ann", "token": "x"}`))
	if err != nil || form.User != "ann" || form.Password.Reveal() != "x" || !form.Token.IsZero() || form.Reach != api.ReachLogin {
		t.Errorf("%+v, %v: its password is for a login page", form, err)
	}
}
