//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

// slack is what a loaded machine may take beyond a bound.
const slack = patience

// greeting is what the campaign's server answers.
const greeting = "here is the page"

// campaignJob is a server that starts within a second, and fails when it is ended.
const campaignJob = `#!/bin/bash
#SBATCH --job-name=campaign --output=campaign.%j.log --time=1:00:00 --mem=100M --no-requeue
python3 -u - <<'END'
import http.server, socket
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"` + greeting + `")
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer((socket.gethostname(), 0), Page)
print("the campaign serves at http://%s:%d/" % server.server_address)
server.serve_forever()
END
echo "the server was killed"
exit 3
`

const campaignConfig = `
[app.campaign]
patterns = ['the campaign serves at http://(?P<host>\S+):(?P<port>\d+)/']

[session.page]
host   = "%s"
submit = "local:./job.sh"
args   = ["--nodelist=%s"%s]
`

// campaign is a session in use on a laptop, to which faults happen.
type campaign struct {
	t     *testing.T
	l     *laptop
	lab   *real.Lab
	alias string // of the server that the session's host is
	seen  *observer
	was   api.Session // before the fault at hand
	began time.Time   // when that happened
	after func()      // ends what goes on during it; nil: nothing
}

// newCampaign brings a session up.
func newCampaign(t *testing.T, l *laptop, alias string) *campaign {
	t.Helper()
	if err := os.WriteFile(filepath.Join(l.home, "job.sh"), []byte(campaignJob), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &campaign{t: t, l: l, lab: l.lab, alias: alias, seen: observe(t.Context(), l.client, "page")}
	c.up()
	return c
}

// newNamedLaptop is one with a small disk, to which the login node is known by a
// name.
func newNamedLaptop(t *testing.T) *laptop {
	t.Helper()
	l := furnish(t, real.Start(t), fmt.Sprintf(campaignConfig, "lab-named", "cn01", ""))
	config := filepath.Join(t.TempDir(), "ssh_config")
	text := fmt.Sprintf("Host lab-named\n  HostName login1.lab.test\n  HostKeyAlias %s\n  ConnectTimeout 3\nHost *\n  Include %s\n",
		l.lab.NodeAddr("login1"), l.lab.SSHConfig())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l.env = append(l.env, "TUNCTL_SSH_CONFIG="+config)
	l.own = l.lab.Laptop(filepath.Join(l.home, "state"))
	t.Cleanup(l.close)
	return l
}

// result is what came of a fault.
type result struct {
	fault        fault
	shown, again time.Duration
}

// TestTheSessionOutlivesEveryFault is the whole campaign, in `make test`, too: the other
// tests that run beside it take as long.
func TestTheSessionOutlivesEveryFault(t *testing.T) {
	real.Need(t, "ssh", "slurm")
	t.Parallel()
	results := make([]result, len(faults))
	t.Run("faults", func(t *testing.T) {
		for i, f := range faults {
			if f.beside == nil {
				continue
			}
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				results[i] = f.beside(t).run(f)
			})
		}
		t.Run("on one laptop", func(t *testing.T) {
			t.Parallel()
			c := newCampaign(t, newNamedLaptop(t), "lab-login")
			for i, f := range faults {
				if f.beside == nil {
					results[i] = c.run(f)
				}
			}
			c.l.run("down", "--cancel")
		})
	})
	if t.Failed() {
		return
	}
	table := faultTable(func(i int) []string { return []string{seconds(results[i].shown), seconds(results[i].again)} })
	t.Logf("\n%s", table)
	if err := os.WriteFile(artifact(t, "faults.md"), []byte(table), 0o644); err != nil {
		t.Error(err)
	}
	if *update {
		updateFaultPage(t, func(measured map[string][]string) {
			for i, f := range faults {
				measured[f.name] = []string{seconds(results[i].shown), seconds(results[i].again)}
			}
		})
	}
}

// run lets a fault happen: it must be shown in time, in the words of the table, and
// be over in time once it is repaired, with a page that answers at the same address.
func (c *campaign) run(f fault) result {
	c.t.Helper()
	c.was, _ = c.awaitReady(0, slack, nil)
	mark := c.seen.mark()
	c.began = time.Now()
	f.inflict(c)
	shown, after := c.await(mark, f.within(session.PracticeLimits())+slack, f.String(), f.shown)
	if f.state == "" {
		c.statusSays(f.cause)
	}
	f.repair(c)
	repaired := time.Now()
	if f.person != "" {
		c.up()
	}
	limit := slack
	if f.again != nil {
		limit += f.again(session.PracticeLimits())
	}
	now, at := c.awaitReady(after, limit, f.moved)
	if c.after != nil {
		c.after()
		c.after = nil
	}
	c.unchanged(f, now)
	c.answers()
	r := result{f, shown.at.Sub(c.began), max(0, at.Sub(repaired))}
	c.t.Logf("%s: %v, and %v later ready again:\n%s", f.name, r.shown.Round(time.Millisecond), r.again.Round(time.Millisecond), shown)
	return r
}

// unchanged checks that the page did not move, and the job neither, unless the fault
// was its end.
func (c *campaign) unchanged(f fault, now api.Session) {
	c.t.Helper()
	if now.Local != c.was.Local {
		c.t.Errorf("the page moved from %s to %s", c.was.Local, now.Local)
	}
	if same := now.Job.ID == c.was.Job.ID; same == f.endsJob {
		c.t.Errorf("it was job %s and is job %s", c.was.Job.ID, now.Job.ID)
	}
}

// await waits for a sighting after a mark.
func (c *campaign) await(mark int, limit time.Duration, what string, want func(sighting) bool) (sighting, int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	s, after, ok := c.seen.await(ctx, mark, want)
	if !ok {
		var lines []string
		for _, s := range c.seen.since(mark) {
			lines = append(lines, s.String())
		}
		c.t.Fatalf("not within %v: %s; seen was:\n%s", limit, what, strings.Join(lines, "\n"))
	}
	return s, after
}

// awaitReady waits until all is well, and returns since when it is.
func (c *campaign) awaitReady(mark int, limit time.Duration, also func(was, now api.Session) bool) (api.Session, time.Time) {
	c.t.Helper()
	last := max(mark, c.seen.mark()-1) // it may be so already
	s, _ := c.await(last, limit, "ready, without a complaint", func(s sighting) bool {
		return !s.noAgent && s.session.State == api.SessionReady && s.session.Cause == "" && (also == nil || also(c.was, s.session))
	})
	return s.session, s.at
}

// up is what the user does where nothing recovers automatically.
func (c *campaign) up() {
	c.t.Helper()
	if out, err := c.l.commandIn(c.t.Context(), "up", "--no-open", "page").CombinedOutput(); err != nil {
		c.t.Fatalf("up: %v\n%s", err, out)
	}
}

// statusSays checks what the user is told without an agent.
func (c *campaign) statusSays(words string) {
	c.t.Helper()
	if out, talk := c.l.run("status"); !strings.Contains(talk, words) {
		c.t.Errorf("status says %q %q", out, talk)
	}
}

// answers wants the page's bytes through the forward.
func (c *campaign) answers() {
	c.t.Helper()
	res, err := browser().Get("http://" + c.was.Local + "/")
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || string(body) != greeting {
		c.t.Errorf("the page answers %s %.80q %v", res.Status, body, err)
	}
}

func (s sighting) String() string {
	if s.noAgent {
		return "no agent"
	}
	return fmt.Sprintf("%s (%s): %s", s.session.State, s.session.Code, s.session.Cause)
}
