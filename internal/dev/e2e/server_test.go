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

const serverHead = "#!/bin/bash\n#SBATCH --job-name=server --output=server.%j.log --time=10:00 --mem=600M\nexport HOST=$(hostname -s)\n"

// serverForms are ways in which people start a real Jupyter server. What others print is
// among the samples of package detect.
var serverForms = []struct {
	name   string
	script string
	opened func(s api.Session, page *url.URL) bool
}{
	{
		"a port that is taken", // whose other owner may answer first
		"python3 -m http.server 8703 --bind $HOST >/dev/null 2>&1 & sleep 1\n" +
			"echo JupyterLab will listen on: $HOST:8703\njupyter server --no-browser --ip=$HOST --port=8703\n",
		func(_ api.Session, page *url.URL) bool { return page.Query().Get("token") != "" },
	},
	{
		"a unix socket",
		"exec jupyter notebook --no-browser --sock=$HOME/server.$SLURM_JOB_ID.sock",
		func(s api.Session, _ *url.URL) bool { return strings.HasSuffix(s.Endpoint.Socket, ".sock") },
	},
	{
		"a certificate of its own",
		"openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=$HOST 2>/dev/null\n" +
			"exec jupyter server --no-browser --ip=$HOST --port=8709 --certfile=cert.pem --keyfile=key.pem",
		func(_ api.Session, page *url.URL) bool { return page.Scheme == "https" },
	},
}

func TestARealJupyterServerBehindASocketACertificateOrATakenPortIsOpened(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	for _, form := range serverForms {
		t.Run(form.name, func(t *testing.T) {
			l := newQuietLaptop(t, serverConfig)
			if err := os.WriteFile(filepath.Join(l.home, "server.sh"), []byte(serverHead+form.script+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			l.run("up", "--no-open", "--wait", "90s")
			s, _ := l.until("ready on Jupyter's port", func(s api.Session) bool { return s.State == api.SessionReady && s.Endpoint.Port != 8703 })
			out, _ := l.run("open", "--print", "jupyter")
			page, err := url.Parse(strings.TrimSpace(out))
			if err != nil {
				t.Fatal(err)
			}
			if !form.opened(s, page) {
				t.Errorf("opened %s of %+v", page.Redacted(), *s.Endpoint)
			}
			if code := openAsABrowser(t, page); code != http.StatusOK {
				t.Errorf("the page answers %d", code)
			}
			l.run("down", "--cancel")
		})
	}
}

// TestPageOnHost has a job that is a process of a host which forwards nothing.
func TestPageOnHost(t *testing.T) {
	real.Need(t, "ssh", "jupyter")
	t.Parallel()
	l := newQuietLaptop(t, "[host.lab-tight]\nscheduler = \"none\"\n"+strings.Replace(serverConfig, "lab-login", "lab-tight", 1))
	if err := os.WriteFile(filepath.Join(l.home, "server.sh"), []byte("#!/bin/sh\nexec jupyter server --no-browser --port=8719\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.run("up", "--no-open", "--wait", "90s")
	out, _ := l.run("open", "--print", "jupyter")
	page, err := url.Parse(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	if code := openAsABrowser(t, page); code != http.StatusOK {
		t.Errorf("the page answers %d", code)
	}
	checks, _ := l.command("doctor", "--all", "jupyter").Output() // it fails where something else could be better
	if !strings.Contains(string(checks), "✓ page ") {
		t.Errorf("doctor says:\n%s", checks)
	}
	l.run("down", "--cancel")
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
