package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/desktop"
	"tunctl/internal/lists"
	"tunctl/internal/setup"
	"tunctl/internal/term"
	"tunctl/tunnel/forward"
)

func attachCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "attach",
		Usage:     "open a server running in an existing job; needs no config",
		ArgsUsage: "[HOST [JOB|NODE:PORT]]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "save", Usage: "add a session of this `NAME` to the config"},
			waitFlag(),
			&cli.BoolFlag{Name: "no-open", Usage: "do not open the page in a browser"},
			&cli.BoolFlag{Name: "json", Usage: "print each event as a line of JSON"},
		},
		Action: invokeInterruptible(t, takes(0, 2, "attach takes a host and, optionally, a job id or NODE:PORT", ofHost(attach))),
	}
}

func attach(ctx context.Context, inv *invocation, host string) error {
	job, save := inv.Args().Get(1), inv.String("save")
	if isAddress(job) {
		return attachAddress(ctx, inv, host, job)
	}
	if _, taken := readConfig(inv.paths).Session(save); taken { // a config with errors is reported when saving
		return usagef("session %q already exists in %s", save, inv.paths.Config)
	}
	if err := setup.CheckSessionName(save); save != "" && err != nil {
		return err
	}
	if err := inv.connectHost(ctx, host, inv.login); err != nil {
		return err
	}
	u := newUp(inv)
	u.attaches = true
	u.request = func(ctx context.Context) (api.UpResponse, error) {
		return requestAttach(ctx, inv, api.AttachRequest{Host: host, Job: job, Name: save})
	}
	if err := u.start(ctx, !inv.Bool("no-open") && !u.json); err != nil {
		return err
	}
	if other := sessionOfJob(ctx, inv, u.ready); other != "" {
		inv.Say("session %s has job %s, too: `tunctl open %s` opens the same page", other, u.ready.Job.ID, other)
	}
	if save != "" {
		return saveSession(ctx, inv, host, save, u.ready)
	}
	if !u.json {
		inv.Say("`tunctl down %s` stops forwarding; `tunctl attach … --save NAME` keeps it as a session", u.name)
	}
	return nil
}

// sessionOfJob is another session that is up and has the job of one; "" if there is none.
func sessionOfJob(ctx context.Context, inv *invocation, s api.Session) string {
	st, err := inv.client.Status(ctx)
	if err != nil || s.Job == nil {
		return ""
	}
	for _, other := range st.Sessions {
		if other.Name != s.Name && other.Host == s.Host && other.State != api.SessionDown && other.RunsJob() && other.Job.Ref() == s.Job.Ref() {
			return other.Name
		}
	}
	return ""
}

// attachAddress forwards to a server at an address beyond the host and opens its page, once that
// has responded. What serves there is not known, so there is no token to add.
func attachAddress(ctx context.Context, inv *invocation, host, address string) error {
	if inv.String("save") != "" {
		return usagef("--save needs a job; to keep this forward, set forward = [\"…\"] in a session: see `tunctl forward --help`")
	}
	port := strconv.FormatUint(localPortFor(address), 10)
	u := newForward(inv, api.ForwardRequest{Host: host, Specs: []string{port + ":" + address}})
	session, err := u.bringUp(ctx)
	local := ""
	for _, f := range session.Forwards { // one, and the wanted port may be another program's
		local = f.Listen
	}
	if err == nil && request(ctx, local) != nil {
		err = api.Errorf(api.CodeUnreachable, "nothing responds at %s, as seen from %s", address, host).
			WithHint("check the address that the server printed; the forward stays until `tunctl down %s`", u.name)
	}
	if u.json {
		return u.printResult(session, err)
	}
	if err != nil {
		return err
	}
	u.announce(session)
	page := "http://" + local + "/"
	inv.Say("the page is at %s; if it asks for a token, the server printed one; `tunctl down %s` stops forwarding", page, u.name)
	if inv.Bool("no-open") {
		return nil
	}
	if err := desktop.Open(ctx, page); err != nil && !errors.Is(err, desktop.ErrNoBrowser) {
		return err
	}
	return nil
}

// request requests a page of a server on this machine, which may answer anything.
func request(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := forward.DialLocal(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", address); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// answerTimeout is how long a server may take to answer.
const answerTimeout = 15 * time.Second

// requestAttach has the agent attach, and the user, if there is one, choose where several
// jobs may be meant.
func requestAttach(ctx context.Context, inv *invocation, req api.AttachRequest) (api.UpResponse, error) {
	for {
		answer, err := inv.client.Attach(ctx, req)
		if err != nil {
			return api.UpResponse{}, err
		}
		if answer.Session != nil {
			return api.UpResponse{Session: *answer.Session, At: answer.At}, nil
		}
		if !inv.Interactive {
			ids := lists.Map(answer.Candidates, func(c api.Candidate) string { return c.Job.ID })
			return api.UpResponse{}, api.Errorf(api.CodeUsage, "several jobs are running on %s: name one", req.Host).
				WithHint("`tunctl attach %s JOB`; available: %s", req.Host, strings.Join(ids, ", "))
		}
		if req.Job, err = chooseJob(ctx, inv.Terminal, answer.Candidates); err != nil {
			return api.UpResponse{}, err
		}
	}
}

// saveSession adds a session to the config that adopts the job by its name, and submits its
// script if the scheduler reports that.
func saveSession(ctx context.Context, inv *invocation, host, name string, s api.Session) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Saved by `tunctl attach %s`.\n[session.%s]\nhost = %s\n", host, name, configs.Quote(host))
	if s.Endpoint != nil && s.Endpoint.App != "" {
		fmt.Fprintf(&b, "app  = %s\n", configs.Quote(s.Endpoint.App))
	}
	if s.Job != nil && s.Job.Name != "" {
		fmt.Fprintf(&b, "job  = %s\n", configs.Quote(s.Job.Name))
	}
	if s.Job != nil && strings.HasPrefix(s.Job.Script, "/") && !strings.Contains(s.Job.Script, "/.tunctl/") { // not a copy of ours
		fmt.Fprintf(&b, "# Submitted if no such job is running.\nsubmit = %s\n", configs.Quote(s.Job.Script))
	}
	if err := setup.Append(ctx, inv.client, inv.paths.Config, b.String()); err != nil {
		return err
	}
	inv.Say("%s saved in %s: `tunctl up %s` finds the job again", inv.Paint(term.Green, "✓"), inv.paths.Config, name)
	return nil
}
