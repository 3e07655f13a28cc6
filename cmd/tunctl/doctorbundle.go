package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/doctor"
	"tunctl/internal/home"
	"tunctl/internal/term"
	"tunctl/internal/words"
)

// writeBundle writes the files that a bug report needs, and lists them.
func writeBundle(ctx context.Context, inv *invocation, cfg *configs.Config, checks []api.Check, path string) error {
	st, stErr := inv.client.Status(ctx)
	runs, runsErr := state.NewHistory(inv.paths.History()).Runs()
	items := []doctor.Item{
		{Name: "about.txt", Text: fmt.Sprintf("tunctl %s\n%s/%s, %s\n", version(), runtime.GOOS, runtime.GOARCH, runtime.Version())},
		bundleValue("checks.json", checks, nil),
		bundleValue("status.json", st.WithoutLogins(), stErr),
		bundleValue("history.json", runs, runsErr),
		bundleFile("config.toml", inv.paths.Config),
		bundleFile("agent.log", inv.paths.Log()),
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return api.Errorf(api.CodeUsage, "cannot write the bundle: %w", err).
			WithHint("name a file that does not exist yet")
	}
	packed, err := doctor.WriteBundle(f, items, scrubber(ctx, inv.paths, cfg, st, runs), time.Now())
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot write the bundle: %w", err)
	}
	inv.Say("\n%s contains, without tokens, passwords, user names and accounts:", path)
	for _, item := range packed {
		inv.Say("  %s  %s", term.Pad(item.Name, 14), words.Bytes(int64(len(item.Text))))
	}
	inv.Say("check it before you send it: `unzip -p %s | less`", path)
	return nil
}

// bundleFile is a file, or why it cannot be read.
func bundleFile(name, path string) doctor.Item {
	text, err := os.ReadFile(path)
	return bundleText(name, text, err)
}

// bundleValue is a value, or why there is none.
func bundleValue(name string, v any, err error) doctor.Item {
	var text []byte
	if err == nil {
		text, err = json.MarshalIndent(v, "", "  ")
	}
	return bundleText(name, append(text, '\n'), err)
}

func bundleText(name string, text []byte, err error) doctor.Item {
	if err != nil {
		text = fmt.Appendf(nil, "(%v)\n", err)
	}
	return doctor.Item{Name: name, Text: string(text)}
}

// scrubber replaces the names of the user, here and on each host, and of accounts.
func scrubber(ctx context.Context, p home.Paths, cfg *configs.Config, st api.Status, runs []api.Run) *doctor.Scrubber {
	names := map[string]string{}
	if u, err := user.Current(); err == nil {
		login := u.Username[strings.LastIndexByte(u.Username, '\\')+1:]
		names[login], names[u.Username], names[u.Name] = "user", "user", "user"
		names[u.HomeDir] = "~"
	}
	if dir, err := os.UserHomeDir(); err == nil {
		names[filepath.Clean(dir)] = "~"
	}
	if name, err := os.Hostname(); err == nil {
		names[name] = "this-machine"
	}
	read := resolver(p, cfg)
	for _, host := range cfg.HostNames() {
		if s, err := read.Settings(ctx, host); err == nil {
			names[s.User] = "user"
		}
	}
	for _, h := range st.Hosts { // also those that the config does not have
		names[h.User] = "user"
	}
	for _, account := range accounts(cfg, st, runs) {
		names[account] = "account"
	}
	delete(names, "")
	delete(names, "/")
	return doctor.NewScrubber(names)
}

// accounts are those that the user's jobs are or were charged to, as far as tunctl was
// told. A job's account may be anywhere, such as in the paths of its files.
func accounts(cfg *configs.Config, st api.Status, runs []api.Run) []string {
	var all []string
	chosen := func(with map[string]string) { all = append(all, with["account"], with["project"]) }
	for _, s := range cfg.Sessions {
		chosen(s.With)
		all = append(all, doctor.Accounts(s.Args)...)
	}
	for _, s := range st.Sessions {
		chosen(s.With)
		for _, with := range s.Recent {
			chosen(with)
		}
	}
	for _, r := range runs {
		chosen(r.With)
	}
	return all
}
