package agent_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/testport"
	"tunctl/internal/lab"
)

// mine is a config whose session is on a host of the config that is another's alias.
func mine(ssh string, lines ...string) string {
	return fmt.Sprintf("[host.mine]\nssh = %q\n%s\n%s", ssh, strings.Join(lines, "\n"), strings.Replace(config, `"practice"`, `"mine"`, 1))
}

// edit replaces the config, as the user does who then types the next command.
func (w *world) edit(text string) {
	w.t.Helper()
	w.write(w.paths.Config, text)
	must(w.t, w.client.Reload(w.t.Context()))
}

// alias adds a host to the ssh_config: the practice cluster's own of a config, with
// some of its words replaced.
func (w *world) alias(of *lab.Cluster, replace ...string) {
	w.t.Helper()
	text, err := os.ReadFile(of.SSHConfig())
	must(w.t, err)
	block, _, _ := strings.Cut(string(text), "\n\n")
	own, err := os.ReadFile(w.cluster.SSHConfig())
	must(w.t, err)
	w.write(w.cluster.SSHConfig(), string(own)+"\n"+strings.NewReplacer(replace...).Replace(block)+"\n")
}

// untilHost waits for a host to be as wanted.
func (w *world) untilHost(name, what string, want func(api.Host) bool) (last api.Host) {
	w.t.Helper()
	seen := w.watch(func(e api.Event) bool {
		var all []api.Host
		switch {
		case e.Status != nil:
			all = e.Status.Hosts
		case e.Host != nil:
			all = []api.Host{*e.Host}
		}
		i := slices.IndexFunc(all, func(h api.Host) bool { return h.Alias == name })
		if i >= 0 {
			last = all[i]
		}
		return i >= 0 && want(last)
	})
	if !seen {
		w.t.Fatalf("%s was never %s; last: %+v", name, what, last)
	}
	return last
}

// another is a second session of a config.
const another = `
[session.notebook]
host   = "practice"
submit = "~/jupyter.sh"
`

func TestConfig(t *testing.T) {
	t.Parallel()
	t.Run("tells watchers of a session that is added or removed", func(t *testing.T) {
		w := newWorld(t)
		w.after(func() error {
			w.write(w.paths.Config, config+another)
			return nil
		}, func(e api.Event) bool {
			if e.Status == nil {
				return false
			}
			s, listed := e.Status.Session("notebook")
			return listed && s.State == api.SessionDown && s.Host == "practice"
		})
		w.after(func() error {
			w.write(w.paths.Config, config)
			return nil
		}, func(e api.Event) bool {
			if e.Status == nil {
				return false
			}
			_, listed := e.Status.Session("notebook")
			return !listed
		})
	})
	t.Run("tells watchers that it is broken, and good again", func(t *testing.T) {
		w := newWorld(t)
		broken := w.after(func() error {
			w.write(w.paths.Config, config+"locall = 1\n")
			return nil
		}, func(e api.Event) bool { return e.Status != nil && e.Status.Config != nil }).Status
		if _, listed := broken.Session("jupyter"); !listed || !strings.Contains(broken.Config.Message, "locall") {
			t.Errorf("%+v, sessions %+v", broken.Config, broken.Sessions)
		}
		w.after(func() error {
			w.write(w.paths.Config, config)
			return nil
		}, func(e api.Event) bool { return e.Status != nil && e.Status.Config == nil })
		w.up()
	})
	t.Run("is used by a command right after its save", func(t *testing.T) {
		for name, ask := range map[string]func(*world) error{
			"up": func(w *world) error {
				_, err := w.client.Up(w.t.Context(), api.UpRequest{Session: "notebook"})
				return err
			},
			"down": func(w *world) error {
				_, err := w.client.Down(w.t.Context(), api.DownRequest{Session: "notebook"})
				return err
			},
			"status": func(w *world) error {
				st, err := w.client.Status(w.t.Context())
				if _, listed := st.Session("notebook"); err == nil && !listed {
					err = errors.New("the status has no such session")
				}
				return err
			},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				w.write(w.paths.Config, config+another)
				if err := ask(w); err != nil {
					t.Error(err)
				}
			})
		}
	})
	t.Run("that is broken is refused, and what runs keeps running", func(t *testing.T) {
		w := newWorld(t)
		w.write(w.paths.Config, config+another)
		before := w.up()
		w.write(w.paths.Config, config+another+"local = x\n")
		_, err := w.client.Up(t.Context(), api.UpRequest{Session: "notebook"})
		isCode(t, err, api.CodeConfig, "config.toml:11:9: ")
		if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
			t.Errorf("up of the one that is up: %v", err)
		}
		if s := w.until("ready", ready); s.Since != before.Since {
			t.Errorf("the session was disturbed: %+v", s)
		}
		w.opens()
	})
	t.Run("is corrected for the next up", func(t *testing.T) {
		for name, wrong := range map[string]string{"address": mine("closed"), "scheduler": mine("practice", `scheduler = "pbs"`)} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				w.alias(w.cluster, "Host practice", "Host closed", "Port ", "Port 1 #")
				w.edit(wrong)
				w.bringUp()
				w.until("failed", failed)
				w.edit(mine("practice", `scheduler = "slurm"`))
				w.up()
			})
		}
	})
	t.Run("gives a session another host", func(t *testing.T) {
		w := newWorld(t)
		w.alias(w.cluster, "Host practice", "Host closed", "Port ", "Port 1 #")
		w.edit(strings.Replace(config, `"practice"`, `"closed"`, 1))
		w.bringUp()
		w.until("failed", failed)
		must(t, w.client.Logout(t.Context(), "closed"))
		w.edit(config)
		w.up()
		st := w.status()
		for _, h := range st.Hosts {
			if h.Alias == "closed" && h.State != api.HostDown {
				t.Errorf("the host that the session no longer has was asked for again: %+v", h)
			}
		}
	})
	t.Run("gives a session forwards in place of a job", func(t *testing.T) {
		w := newWorld(t)
		w.up()
		s := w.until("ready", ready)
		_, err := w.client.Cancel(t.Context(), "practice", s.Job.ID)
		must(t, err)
		w.until("ended", ended)
		address := fmt.Sprint("127.0.0.1:", testport.Free(t))
		w.edit(fmt.Sprintf("[session.jupyter]\nhost = \"practice\"\nforward = [\"%s:localhost:9\"]\n", address))
		w.bringUp()
		now := w.until("ready", ready)
		if len(now.Forwards) != 1 || now.Forwards[0].Listen != address || now.Local != "" {
			t.Errorf("it listens at %+v, and has a page at %q", now.Forwards, now.Local)
		}
	})
	t.Run("keeps the connection, and the status says what changed", func(t *testing.T) {
		w := newWorld(t)
		w.alias(w.cluster, "Host practice", "Host byname", "HostName 127.0.0.1", "HostName localhost\n    HostKeyAlias cn01")
		w.edit(mine("practice"))
		before, logins := w.up(), w.cluster.Logins()
		w.edit(mine("byname"))
		h := w.untilHost("mine", "outdated", func(h api.Host) bool { return h.Outdated != "" })
		if h.State != api.HostUp || h.Hostname != "127.0.0.1" || w.cluster.Logins() != logins {
			t.Errorf("after %d logins: %+v", w.cluster.Logins(), h)
		}
		if s := w.until("ready", ready); s.Since != before.Since {
			t.Errorf("the session was disturbed: %+v", s)
		}
	})
}

func TestAddress(t *testing.T) {
	t.Parallel()
	t.Run("of the same cluster finds the job again", func(t *testing.T) {
		w := newWorld(t)
		w.alias(w.cluster, "Host practice", "Host byname", "HostName 127.0.0.1", "HostName localhost\n    HostKeyAlias cn01")
		w.edit(mine("practice"))
		before := w.up()
		w.edit(mine("byname"))
		w.cluster.DropAll()
		w.untilHost("mine", "in need of a login", func(h api.Host) bool { return h.State == api.HostNeedsLogin })
		w.login("mine")
		w.untilHost("mine", "up by its name", func(h api.Host) bool { return h.State == api.HostUp && h.Hostname == "localhost" })
		after := w.until("ready", ready)
		if after.Job.ID != before.Job.ID || len(w.cluster.Jobs()) != 1 {
			t.Errorf("job %s, before %s, of %d", after.Job.ID, before.Job.ID, len(w.cluster.Jobs()))
		}
	})
	t.Run("of another cluster has other jobs with the number", func(t *testing.T) {
		w := newWorld(t)
		second, err := lab.Start(lab.Options{Dir: filepath.Join(t.TempDir(), "second"), QueueFor: 50 * time.Millisecond})
		must(t, err)
		t.Cleanup(func() {
			if err := second.Close(); err != nil {
				t.Error(err)
			}
		})
		w.write(filepath.Join(second.Home(), "other.sh"), strings.ReplaceAll(lab.JobScript(second.Dialect()), "jupyterlab", "other"))
		w.alias(second, "Host practice", "Host second")
		w.edit(mine("practice"))
		before := w.up()

		// Another job of the user's has the same number there.
		w.login("second")
		w.untilHost("second", "up", func(h api.Host) bool { return h.State == api.HostUp })
		if there, err := w.client.Submit(t.Context(), "second", api.SubmitRequest{Script: "~/other.sh"}); err != nil || there.ID != before.Job.ID {
			t.Fatalf("job %q there, %q here: %v", there.ID, before.Job.ID, err)
		}

		w.edit(mine("second"))
		must(t, w.client.Logout(t.Context(), "mine"))
		w.login("mine")
		_, port, err := net.SplitHostPort(second.Addr())
		must(t, err)
		w.untilHost("mine", "up there", func(h api.Host) bool { return h.State == api.HostUp && fmt.Sprint(h.Port) == port })
		s := w.until("ended", ended)
		if !strings.Contains(s.Cause, "was started as student@"+w.cluster.Addr()) {
			t.Errorf("%q", s.Cause)
		}
		if _, err := w.client.Down(t.Context(), api.DownRequest{Session: "jupyter", Cancel: true}); err == nil || !strings.Contains(err.Error(), "was started as") {
			t.Errorf("down with cancel: %v", err)
		}
		for name, c := range map[string]*lab.Cluster{"first": w.cluster, "second": second} {
			if jobs := c.Jobs(); len(jobs) != 1 || jobs[0].Over() {
				t.Errorf("the %s cluster's jobs: %+v", name, jobs)
			}
		}
	})
}
