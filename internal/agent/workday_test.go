package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"tunctl/internal/agent/events"
	"tunctl/internal/agent/forwards"
	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/internal/home"
	"tunctl/internal/localapi"
	"tunctl/tunnel/forward"
)

// workday is the user with ten sessions on five login nodes, and their laptop: the real
// agent with the limits for real hosts, on a simulated clock and network. One of the login
// nodes, "mfa", wants a one-time code.
type workday struct {
	t     *testing.T
	agent *Agent
	hosts map[string]*simHost
	names []string    // of hosts
	codes map[int]int // that the user entered, by the hour
	since time.Time
	hours int // how long the day is

	mu   sync.Mutex
	told []api.Notice
}

const (
	oneTimeCode = "123456"
	// quietBytes is how many bytes a host may see in an hour while nobody uses a page.
	quietBytes = 1 << 20
)

func newWorkday(t *testing.T) *workday {
	t.Helper()
	return workdayWith(t, session.DefaultLimits())
}

func workdayWith(t *testing.T, limits session.Limits) *workday {
	t.Helper()
	dir := t.TempDir()
	keyFile, key := sshtest.NewKeyFile(t)
	g := &workday{t: t, hosts: map[string]*simHost{}, names: []string{"alpha", "beta", "gamma", "delta", "mfa"}, codes: map[int]int{}, since: time.Now(), hours: 5}
	if os.Getenv("TUNCTL_WHOLE_DAY") != "" { // as in `make bench`
		g.hours = 10
	}
	var config, sshConfig, known strings.Builder
	fmt.Fprintf(&sshConfig, "Host *\n  User alice\n  IdentityFile %s\n  UserKnownHostsFile %s\n  StrictHostKeyChecking yes\n  IdentityAgent none\n", keyFile, filepath.Join(dir, "known_hosts"))
	for _, name := range g.names {
		code := ""
		if name == "mfa" {
			code = oneTimeCode
		}
		h := newSimHost(t, name, key, code)
		g.hosts[name] = h
		known.WriteString(h.Known(name))
		for i, wait := range []time.Duration{0, 150 * time.Minute} { // one runs, one is in the queue until the middle of the morning
			if name == "delta" {
				break
			}
			job := &modelJob{id: fmt.Sprint(100 + i), name: fmt.Sprintf("%s-%d", name, i), script: "/home/alice/nb.sh", node: "cn01", submitted: g.since, start: g.since.Add(wait), limit: 12*time.Hour - wait}
			h.jobs.jobs = append(h.jobs.jobs, job)
			fmt.Fprintf(&config, "[session.%s]\nhost = %q\njob = %q\n", job.name, name, job.name)
		}
	}
	config.WriteString("[session.delta-0]\nhost = \"delta\"\nforward = [\"0:db.int:5432\"]\n[session.delta-1]\nhost = \"delta\"\nforward = [\"0:web.int:80\"]\n")
	paths := home.In(dir)
	for path, text := range map[string]string{paths.Config: config.String(), filepath.Join(dir, "ssh_config"): sshConfig.String(), filepath.Join(dir, "known_hosts"): known.String()} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	must(t, home.MakePrivate(paths.State))
	g.start(paths, filepath.Join(dir, "ssh_config"), limits)
	return g
}

// start runs the agent without its socket, which would hold the simulated clock.
func (g *workday) start(paths home.Paths, sshConfig string, limits session.Limits) {
	g.t.Helper()
	a, err := New(Options{Paths: paths, Version: "test", SSHConfig: sshConfig, Limits: limits, Log: slog.New(slog.DiscardHandler), network: simNetwork(g.hosts)})
	must(g.t, err)
	g.agent = a
	a.Ctx, a.server.stop = context.WithCancel(context.Background())
	a.Hosts.Start(a.Ctx, &a.Work)
	person := a.Hub.Subscribe("", api.AnswersDesktop)
	a.Work.Go(func() { g.answer(person) })
	g.t.Cleanup(func() {
		a.server.stop()
		a.Hub.Close()
		a.Work.Wait()
	})
}

// session is one of its sessions.
func (g *workday) session(name string) *session.Session {
	g.t.Helper()
	s, err := g.agent.Sessions.Find(name)
	must(g.t, err)
	return s
}

// answer enters a code for every question.
func (g *workday) answer(person *events.Subscriber) {
	for e := range person.C {
		if e.Type == api.EventNotice {
			g.mu.Lock()
			g.told = append(g.told, *e.Notice)
			g.mu.Unlock()
		}
		if e.Type == api.EventPrompt {
			g.codes[g.hosts["mfa"].hour()]++
			if err := g.agent.server.prompts.Answer(e.Prompt.ID, api.Answer{Text: oneTimeCode}); err != nil {
				g.t.Error(err)
			}
		}
	}
}

// up brings sessions up, by default all. Their listeners are open and not served: to wait for a client
// would hold the simulated clock.
func (g *workday) up(only ...string) {
	g.t.Helper()
	for _, c := range g.agent.Settings.Config().Sessions {
		if len(only) > 0 && !slices.Contains(only, c.Name) {
			continue
		}
		s, err := g.agent.Sessions.Find(c.Name)
		must(g.t, err)
		l, err := forward.Listen(forward.ListenOptions{Name: c.Name})
		must(g.t, err)
		g.t.Cleanup(func() { _ = l.Close() })
		open := &forwards.Forward{IsPage: true, Local: l}
		if c.Job == "" {
			open = &forwards.Forward{Spec: c.Forward[0], Local: l}
		}
		s.UseForwards(forwards.New(g.t.Context(), open))
		_, err = g.agent.Sessions.Up(g.t.Context(), api.UpRequest{Session: c.Name})
		must(g.t, err)
	}
}

// login is what the user does when a host waits for them.
func (g *workday) login() {
	for _, name := range g.names {
		if g.agent.Hosts.Pool.Host(name).Status().State == api.HostNeedsLogin {
			_, _ = g.agent.server.handleLogin(g.t.Context(), api.LoginRequest{Host: name}) // its result shows in the counts
		}
	}
}

// until lets the time pass until an hour of the day, which begins at 8.
func (g *workday) until(hour, minute int) {
	time.Sleep(time.Until(g.since.Add(time.Duration(hour-8)*time.Hour + time.Duration(minute)*time.Minute)))
}

// offline takes the network away for a while: the laptop sleeps, or its VPN is down.
func (g *workday) offline(d time.Duration) {
	for _, h := range g.hosts {
		h.unreachable(errNoNetwork)
	}
	time.Sleep(d)
	g.roam()
}

// roam is another address: new connections work, old ones are silent.
func (g *workday) roam() {
	for _, h := range g.hosts {
		h.unreachable(nil)
	}
	g.agent.Hosts.Pool.NetworkChanged()
}

// day is a working day.
func (g *workday) day() {
	g.up()
	g.until(9, 10)
	g.offline(30 * time.Minute) // the lid is closed on the way to the office
	g.until(9, 45)
	g.login()
	g.until(10, 0)
	for range 15 { // a Wi-Fi that comes and goes
		g.roam()
		time.Sleep(40 * time.Second)
	}
	g.login()
	g.until(11, 15)
	g.offline(10 * time.Minute) // the VPN drops
	g.login()
	g.until(11, 35) // a login node is restarted
	g.hosts["gamma"].restart()
	time.Sleep(20 * time.Minute)
	g.hosts["gamma"].unreachable(nil)
	g.until(12, 0)
	g.offline(40 * time.Minute) // lunch
	g.login()
	if g.hours == 5 {
		g.until(13, 0)
		return
	}
	g.until(14, 20)
	g.offline(3 * time.Minute)
	g.until(14, 30)
	g.login()
	g.until(16, 5)
	g.offline(20 * time.Second) // shorter than anybody notices
	g.until(16, 10)
	g.login()
	g.until(8+g.hours, 0)
}

// limit is the most of a use in an hour that docs/cluster.md allows.
func (g *workday) limit(h *simHost, what string, hour int) int {
	l := session.DefaultLimits()
	reconnects := h.uses[simUse{"logins", hour}]
	sessions := 2
	switch what {
	case "logins":
		if h.name == "mfa" {
			return g.codes[hour]
		}
		return int(time.Hour / l.Tunnel.LoginSpacing)
	case "queries": // some more when a job is new, when it starts, and after each loss of the connection
		return int(time.Hour/l.Jobs.Query) + reconnects*(1+sessions) + 2*sessions
	case "commands": // the log is looked for, read often at first and after each loss, and then rarely
		first := int(l.Jobs.LogFirstFor / l.Jobs.LogFirst)
		log := int(l.Jobs.StatSlowAfter/l.Jobs.Stat) + first + int(time.Hour/l.Jobs.LogSettled)
		return g.limit(h, "queries", hour) + sessions*log + reconnects*(1+sessions*first)
	case "bytes":
		return quietBytes
	}
	return 0
}

// simulate runs a subtest on a simulated clock, without the ssh program, which would run in real time.
func simulate(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Setenv("PATH", "")
		synctest.Test(t, test)
	})
}

func TestWorkday(t *testing.T) {
	// A day with sleep, roaming, VPN drops and a host with one-time codes. `make bench` prints its table.
	simulate(t, "stays within the documented limits", func(t *testing.T) {
		g := newWorkday(t)
		g.day()
		synctest.Wait()
		for _, s := range g.agent.server.status().Sessions {
			if s.State != api.SessionReady {
				t.Errorf("in the evening, %s is %s: %s", s.Name, s.State, s.Cause)
			}
		}
		g.check()
		if testing.Verbose() {
			g.print()
		}
	})
	// An hour in which two clients look at ten sessions is compared with one in which nobody does. `make bench` prints its table.
	t.Run("asks the scheduler nothing for who looks", func(t *testing.T) {
		t.Setenv("PATH", "") // without the ssh program, which would run in real time
		var without, with map[string]map[string]int
		synctest.Test(t, func(t *testing.T) { without = runningWorkday(t).hour(0) })
		synctest.Test(t, func(t *testing.T) { with = runningWorkday(t).hour(2) })
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "AN HOUR OF TEN SESSIONS\t\tNOBODY LOOKS\tTWO LOOK\t")
		for _, host := range slices.Sorted(maps.Keys(with)) {
			if a, b := without[host]["queries"], with[host]["queries"]; a != b || host != "delta" && a < 59 {
				t.Errorf("%s: %d queries while two look, %d else", host, b, a)
			}
			if n := with[host]["steps"] - without[host]["steps"]; n > 2 {
				t.Errorf("%s: %d job steps for two jobs", host, n)
			}
			if with[host]["logins"] != without[host]["logins"] {
				t.Errorf("%s: %d logins", host, with[host]["logins"])
			}
			for _, what := range []string{"queries", "steps"} {
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t\n", host, what, without[host][what], with[host][what])
			}
		}
		if testing.Verbose() {
			_ = w.Flush()
		}
	})
	// The requests are those of the tools of `tunctl mcp`: whatever the hosts are asked in these ten minutes, they are asked anyway.
	simulate(t, "costs the hosts nothing for a hundred looks in ten minutes", func(t *testing.T) {
		g := newWorkday(t)
		g.up()
		g.until(8, 30)
		synctest.Wait()
		if s := g.session("alpha-0").Status(); s.State != api.SessionReady {
			t.Fatalf("%+v", s)
		}
		const looks = 100
		routes := localapi.Guard(g.agent.server.routes())
		for range looks {
			time.Sleep(10 * time.Minute / looks)
			synctest.Wait()
			before := g.asked()
			for _, path := range []string{"/v1/status", "/v1/hosts/alpha/last-jobs"} {
				r := httptest.NewRequest(http.MethodGet, "http://tunctl"+path, nil)
				w := httptest.NewRecorder()
				if routes.ServeHTTP(w, r); w.Code != http.StatusOK {
					t.Fatalf("%s: %d %s", path, w.Code, w.Body)
				}
			}
			synctest.Wait() // no time passes: what is asked now is asked because of the look
			if after := g.asked(); after != before {
				t.Fatalf("a look made the hosts do %d things", after-before)
			}
		}
		if g.asked() == 0 {
			t.Error("nothing was counted at all")
		}
	})
}

// check compares what the hosts have seen with the limits.
func (g *workday) check() {
	l := session.DefaultLimits()
	for _, name := range g.names {
		h := g.hosts[name]
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, script := range h.unknown {
			g.t.Errorf("%s was asked to run\n%s", name, script)
		}
		for _, what := range []string{"logins", "queries", "commands", "bytes"} {
			for hour := range g.hours {
				if n, most := h.uses[simUse{what, hour}], g.limit(h, what, hour); n > most {
					g.t.Errorf("%s: %d %s from %d to %d o'clock, at most %d are allowed", name, n, what, 8+hour, 9+hour, most)
				}
			}
		}
		apart(g.t, name+" logins", h.logins, l.Tunnel.LoginSpacing)
		apart(g.t, name+" queries", h.jobs.lists, l.Jobs.QueryMin)
	}
	if n := len(g.hosts["alpha"].logins); n < 5 {
		g.t.Errorf("%d logins prove nothing", n)
	}
}

// apart checks that no two moments are closer than least.
func apart(t *testing.T, what string, at []time.Time, least time.Duration) {
	t.Helper()
	for i := 1; i < len(at); i++ {
		if gap := at[i].Sub(at[i-1]); gap < least {
			t.Errorf("%s %v apart at %s", what, gap, at[i].Format(time.TimeOnly))
		}
	}
}

// print prints what each host has seen in each hour, beside the limit.
func (g *workday) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "A GUEST'S DAY\t\t")
	for hour := range g.hours {
		fmt.Fprintf(w, "%d:00\t", 8+hour)
	}
	fmt.Fprintln(w, "an hour at most\t")
	for _, name := range g.names {
		h := g.hosts[name]
		for _, what := range []string{"logins", "dials", "queries", "commands", "bytes"} {
			fmt.Fprintf(w, "%s\t%s\t", name, what)
			var most []int
			for hour := range g.hours {
				fmt.Fprintf(w, "%d\t", h.uses[simUse{what, hour}])
				most = append(most, g.limit(h, what, hour))
			}
			switch limit := slices.Max(most); {
			case what == "dials":
				fmt.Fprintln(w, "–\t")
			case name == "mfa" && what == "logins":
				fmt.Fprintln(w, "codes entered\t")
			default:
				fmt.Fprintf(w, "%d\t\n", limit)
			}
		}
	}
	_ = w.Flush()
}

// asked is how often the hosts were used, in any way, so far.
func (g *workday) asked() int {
	sum := 0
	for _, h := range g.hosts {
		h.mu.Lock()
		for _, n := range h.uses {
			sum += n
		}
		h.mu.Unlock()
	}
	return sum
}
