package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lab"
)

// mine is a config whose session is on a host of the config that is another's alias.
func mine(ssh string, lines ...string) string {
	return fmt.Sprintf("[host.mine]\nssh = %q\n%s\n%s", ssh, strings.Join(lines, "\n"), strings.Replace(config, `"practice"`, `"mine"`, 1))
}

// edit replaces the config, as a person does who then types the next command.
func (w *world) edit(text string) {
	w.t.Helper()
	w.write(w.paths.Config, text)
	if err := w.client.Reload(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// alias adds a host to the ssh_config: the practice cluster's own of a config, with
// some of its words replaced.
func (w *world) alias(of *lab.Cluster, replace ...string) {
	w.t.Helper()
	text, err := os.ReadFile(of.SSHConfig())
	if err != nil {
		w.t.Fatal(err)
	}
	block, _, _ := strings.Cut(string(text), "\n\n")
	own, err := os.ReadFile(w.cluster.SSHConfig())
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(w.cluster.SSHConfig(), string(own)+"\n"+strings.NewReplacer(replace...).Replace(block)+"\n")
}

// untilHost waits for a host to be as wanted.
func (w *world) untilHost(name, what string, want func(api.Host) bool) api.Host {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var last api.Host
	seen := false
	look := func(h api.Host) {
		if h.Alias == name && !seen {
			last, seen = h, want(h)
		}
		if seen {
			cancel()
		}
	}
	_ = w.client.Watch(ctx, api.AnswersNone, "", func(e api.Event) { // it ends by our cancel
		switch {
		case e.Status != nil:
			for _, h := range e.Status.Hosts {
				look(h)
			}
		case e.Host != nil:
			look(*e.Host)
		}
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

func TestAWatcherIsToldOfASessionThatIsAddedToTheConfigOrRemoved(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var added, removed bool
	first := true
	_ = w.client.Watch(ctx, api.AnswersNone, "", func(e api.Event) { // it ends by our cancel
		if first {
			first = false
			w.write(w.paths.Config, config+another)
			return
		}
		if e.Status == nil {
			return
		}
		switch s, listed := e.Status.Session("notebook"); {
		case listed && !added:
			added = s.State == api.SessionDown && s.Host == "practice"
			w.write(w.paths.Config, config)
		case added && !listed:
			removed = true
			cancel()
		}
	})
	if !added || !removed {
		t.Errorf("told that it was added: %v, and removed: %v", added, removed)
	}
}

func TestAWatcherIsToldThatTheConfigIsBrokenAndThatItIsGoodAgain(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var broken, good bool
	first := true
	_ = w.client.Watch(ctx, api.AnswersNone, "", func(e api.Event) { // it ends by our cancel
		switch {
		case first:
			first = false
			w.write(w.paths.Config, config+"local = x\n")
		case e.Status == nil:
		case e.Status.Config != nil && !broken:
			broken = true
			w.write(w.paths.Config, config)
		case e.Status.Config == nil && broken:
			good = true
			cancel()
		}
	})
	if !broken || !good {
		t.Errorf("told that it is broken: %v, and good again: %v", broken, good)
	}
}

func TestACommandRightAfterASaveGoesByTheNewConfig(t *testing.T) {
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
}

func TestAnUpByABrokenConfigTellsWhereAndWhatRunsKeepsRunning(t *testing.T) {
	w := newWorld(t)
	w.write(w.paths.Config, config+another)
	before := w.up()
	w.write(w.paths.Config, config+another+"local = x\n")
	_, err := w.client.Up(t.Context(), api.UpRequest{Session: "notebook"})
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != api.CodeConfig || !strings.Contains(e.Message, "config.toml:11:9: ") {
		t.Errorf("up of another session: %v", err)
	}
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Errorf("up of the one that is up: %v", err)
	}
	if s := w.until("ready", ready); s.Since != before.Since || w.fetch() != http.StatusOK {
		t.Errorf("the session was disturbed: %+v", s)
	}
}

func failed(s api.Session) bool { return s.State == api.SessionFailed }

func TestACorrectedAddressIsUsedByTheNextUp(t *testing.T) {
	w := newWorld(t)
	w.alias(w.cluster, "Host practice", "Host closed", "Port ", "Port 1 #")
	w.edit(mine("closed"))
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	w.until("failed", failed)
	w.edit(mine("practice"))
	w.up()
}

func TestACorrectedSchedulerIsUsedByTheNextUp(t *testing.T) {
	w := newWorld(t)
	w.edit(mine("practice", `scheduler = "pbs"`))
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	w.until("failed", failed)
	w.edit(mine("practice", `scheduler = "slurm"`))
	w.up()
}

func TestASessionThatWasGivenAnotherHostGoesThere(t *testing.T) {
	w := newWorld(t)
	w.alias(w.cluster, "Host practice", "Host closed", "Port ", "Port 1 #")
	w.edit(strings.Replace(config, `"practice"`, `"closed"`, 1))
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	w.until("failed", failed)
	if err := w.client.Logout(t.Context(), "closed"); err != nil {
		t.Fatal(err)
	}
	w.edit(config)
	w.up()
	st, err := w.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range st.Hosts {
		if h.Alias == "closed" && h.State != api.HostDown {
			t.Errorf("the host that the session no longer has was asked for again: %+v", h)
		}
	}
}

func TestASessionWhoseJobWasReplacedByForwardsListensForThem(t *testing.T) {
	w := newWorld(t)
	w.up()
	s := w.until("ready", ready)
	if _, err := w.client.Cancel(t.Context(), "practice", s.Job.ID); err != nil {
		t.Fatal(err)
	}
	w.until("ended", func(s api.Session) bool { return s.State == api.SessionEnded })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	w.edit(fmt.Sprintf("[session.jupyter]\nhost = \"practice\"\nforward = [\"%s:localhost:9\"]\n", address))
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		t.Fatal(err)
	}
	now := w.until("ready", ready)
	if len(now.Forwards) != 1 || now.Forwards[0].Listen != address || now.Local != "" {
		t.Errorf("it listens at %+v, and has a page at %q", now.Forwards, now.Local)
	}
}

func TestAReloadKeepsTheConnectionAndTheStatusSaysWhatChanged(t *testing.T) {
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
}

func TestAJobIsFoundAgainByAnotherAddressOfItsCluster(t *testing.T) {
	w := newWorld(t)
	w.alias(w.cluster, "Host practice", "Host byname", "HostName 127.0.0.1", "HostName localhost\n    HostKeyAlias cn01")
	w.edit(mine("practice"))
	before := w.up()
	w.edit(mine("byname"))
	w.cluster.DropAll()
	w.untilHost("mine", "in need of a login", func(h api.Host) bool { return h.State == api.HostNeedsLogin })
	if _, err := w.client.Login(t.Context(), "mine"); err != nil {
		t.Fatal(err)
	}
	w.untilHost("mine", "up by its name", func(h api.Host) bool { return h.State == api.HostUp && h.Hostname == "localhost" })
	after := w.until("ready", ready)
	if after.Job.ID != before.Job.ID || len(w.cluster.Jobs()) != 1 {
		t.Errorf("job %s, before %s, of %d", after.Job.ID, before.Job.ID, len(w.cluster.Jobs()))
	}
}

func TestAJobsNumberIsNotBelievedOnAnotherCluster(t *testing.T) {
	w := newWorld(t)
	second, err := lab.Start(lab.Options{Dir: filepath.Join(t.TempDir(), "second"), QueueFor: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	})
	w.write(filepath.Join(second.Home(), "other.sh"), strings.ReplaceAll(lab.JobScript(second.Dialect()), "jupyterlab", "other"))
	w.alias(second, "Host practice", "Host second")
	w.edit(mine("practice"))
	before := w.up()

	// Another job of the person's has the same number there.
	if _, err := w.client.Login(t.Context(), "second"); err != nil {
		t.Fatal(err)
	}
	w.untilHost("second", "up", func(h api.Host) bool { return h.State == api.HostUp })
	if there, err := w.client.Submit(t.Context(), "second", api.SubmitRequest{Script: "~/other.sh"}); err != nil || there.ID != before.Job.ID {
		t.Fatalf("job %q there, %q here: %v", there.ID, before.Job.ID, err)
	}

	w.edit(mine("second"))
	if err := w.client.Logout(t.Context(), "mine"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Login(t.Context(), "mine"); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(second.Addr())
	if err != nil {
		t.Fatal(err)
	}
	w.untilHost("mine", "up there", func(h api.Host) bool { return h.State == api.HostUp && fmt.Sprint(h.Port) == port })
	s := w.until("ended", func(s api.Session) bool { return s.State == api.SessionEnded })
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
}
