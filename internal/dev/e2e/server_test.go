package e2e

import (
	"crypto/tls"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

// serverConfig is a session whose job is written by the test.
const serverConfig = `
[session.jupyter]
host   = "lab-login"
submit = "local:./server.sh"
local  = PORT
`

const (
	serverHead = "#!/bin/bash\n#SBATCH --job-name=server --output=server.%j.log --time=10:00\nexport HOST=$(hostname -s)\n"
	// serverOptions are what a server in the lab needs.
	serverOptions = " --no-browser --ip=$HOST --notebook-dir=$HOME "
)

// serverForms are the ways in which people start a real Jupyter server.
var serverForms = []struct {
	name   string
	script string
	// settled says that a page is the final one, where another is taken for it at first.
	settled func(s api.Session) bool
	check   func(s api.Session, page *url.URL) string // what is wrong, if anything
}{
	{
		name:   "notebook as it comes",
		script: "exec jupyter notebook --port=8701" + serverOptions,
		check: func(s api.Session, page *url.URL) string {
			return unless(s.Endpoint.Port == 8701 && page.Query().Get("token") != "", "port or token")
		},
	},
	{
		name:   "server as it comes",
		script: "exec jupyter server --no-browser --ip=0.0.0.0 --port=8702",
		check: func(s api.Session, page *url.URL) string {
			return unless(s.Endpoint.Host == s.Job.Node && s.Endpoint.Port == 8702 && page.Query().Get("token") != "", "host, port or token")
		},
	},
	{
		name: "a port that is taken",
		script: "python3 -m http.server 8703 --bind $HOST >/dev/null 2>&1 & sleep 1\n" +
			"echo JupyterLab will listen on: $HOST:8703\njupyter server --no-browser --ip=$HOST --port=8703\n",
		settled: func(s api.Session) bool { // the other owner answers long before Jupyter on a busy machine
			return s.State == api.SessionReady && s.Endpoint.Port != 8703
		},
		check: func(_ api.Session, page *url.URL) string { return unless(page.Query().Get("token") != "", "token") },
	},
	{
		name:   "a base URL",
		script: "exec jupyter server --no-browser --ip=$HOST --port=8704 --ServerApp.base_url=/user/ann/",
		check: func(_ api.Session, page *url.URL) string {
			return unless(strings.HasPrefix(page.Path, "/user/ann/"), "path")
		},
	},
	{
		name: "a password only",
		script: "exec jupyter server --no-browser --ip=$HOST --port=8705 --ServerApp.token= " +
			"--ServerApp.password=sha1:0123456789ab:f7c3bc1d808e04732adf679965ccc34ca7ae3441",
		check: func(s api.Session, page *url.URL) string {
			return unless(s.Endpoint.Port == 8705 && page.Query().Get("token") == "", "a token from nowhere")
		},
	},
	{
		name:   "a unix socket",
		script: "exec jupyter notebook --no-browser --sock=$HOME/server.$SLURM_JOB_ID.sock",
		check: func(s api.Session, _ *url.URL) string {
			return unless(strings.HasSuffix(s.Endpoint.Socket, ".sock"), "socket")
		},
	},
	{
		name:   "a URL for show",
		script: "exec jupyter server --no-browser --ip=$HOST --port=8707 --ServerApp.custom_display_url=http://hostname:8888/",
		check: func(s api.Session, page *url.URL) string {
			return unless(s.Endpoint.Host == s.Job.Node && s.Endpoint.Port == 8707 && page.Query().Get("token") != "", "host, port or token")
		},
	},
	{
		name:   "a token from the environment",
		script: "export JUPYTER_TOKEN=fromtheenvironment42\nexec jupyter server --no-browser --ip=$HOST --port=8708",
		check: func(_ api.Session, page *url.URL) string {
			return unless(page.Query().Get("token") == "fromtheenvironment42", "token")
		},
	},
	{
		name: "a certificate of its own",
		script: "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=$HOST 2>/dev/null\n" +
			"exec jupyter server --no-browser --ip=$HOST --port=8709 --certfile=cert.pem --keyfile=key.pem",
		check: func(_ api.Session, page *url.URL) string { return unless(page.Scheme == "https", "scheme") },
	},
}

func unless(ok bool, wrong string) string {
	if ok {
		return ""
	}
	return wrong
}

func TestEveryFormOfARealJupyterServerIsOpened(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	for _, form := range serverForms {
		t.Run(form.name, func(t *testing.T) {
			l := newQuietLaptop(t, serverConfig)
			if err := os.WriteFile(filepath.Join(l.home, "server.sh"), []byte(serverHead+form.script+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			l.run("up", "--no-open", "--wait", "90s")
			if form.settled != nil {
				l.until("the page", form.settled)
			}
			s := l.status()
			out, _ := l.run("open", "--print", "jupyter")
			page, err := url.Parse(strings.TrimSpace(out))
			if err != nil {
				t.Fatal(err)
			}
			if wrong := form.check(s, page); wrong != "" {
				t.Errorf("wrong: %s; %+v", wrong, *s.Endpoint)
			}
			if code := openAsABrowser(t, page); code != http.StatusOK {
				t.Errorf("the page answers %d", code)
			}
			l.run("down", "--cancel")
		})
	}
}

// openAsABrowser follows redirects and keeps cookies, as a login by token needs.
func openAsABrowser(t *testing.T, page *url.URL) int {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := browser()
	c.Jar = jar
	c.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	res, err := c.Get(page.String())
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestARealServerThatStartsAgainInItsJobKeepsItsAddress(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	l := newLaptop(t, serverConfig)
	script := serverHead + "for port in 8711 8712; do jupyter server --no-browser --ip=$HOST --port=$port; done\n"
	if err := os.WriteFile(filepath.Join(l.home, "server.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	l.run("up", "--no-open")
	before := l.status()
	_, token := l.page()
	if out, err := l.lab.Exec(before.Job.Node, "pkill", "-KILL", "-f", "port=8711"); err != nil {
		t.Fatal(err, out)
	}
	after, _ := l.until("ready again", func(s api.Session) bool {
		return s.State == api.SessionReady && s.Endpoint.Port == 8712
	})
	base, fresh := l.page()
	if after.Local != before.Local || fresh == token || fresh == "" {
		t.Errorf("the address went from %s to %s, the token is the same: %t", before.Local, after.Local, fresh == token)
	}
	answersWithToken(t, base, fresh)
	l.run("down", "--cancel")
}
