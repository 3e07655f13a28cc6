package main

import (
	"context"
	"encoding/json"
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
	"tunctl/internal/client"
	"tunctl/internal/doctor"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

// writeBundle writes the files that a bug report needs, and lists them.
func writeBundle(ctx context.Context, inv *invocation, cfg *configs.Config, checks []api.Check, path string) error {
	items := bundleItems(ctx, inv.paths, checks)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("cannot write the bundle: %v", err), Hint: "name a file that does not exist yet", Err: err}
	}
	packed, err := doctor.WriteBundle(f, items, scrubber(ctx, inv.paths, cfg), time.Now())
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("cannot write the bundle: %w", err)
	}
	inv.Say("\n%s contains, without tokens, passwords and user names:", path)
	for _, item := range packed {
		inv.Say("  %s  %s", term.Pad(item.Name, 14), bytesText(int64(len(item.Text))))
	}
	inv.Say("check it before you send it: `unzip -p %s | less`", path)
	return nil
}

// bundleItems are the files of a bundle. A file that cannot be read is replaced by the error.
func bundleItems(ctx context.Context, p home.Paths, checks []api.Check) []doctor.Item {
	file := func(name, path string) doctor.Item {
		text, err := os.ReadFile(path)
		if err != nil {
			return doctor.Item{Name: name, Text: fmt.Sprintf("(%v)\n", err)}
		}
		return doctor.Item{Name: name, Text: string(text)}
	}
	value := func(name string, v any, err error) doctor.Item {
		if err != nil {
			return doctor.Item{Name: name, Text: fmt.Sprintf("(%v)\n", err)}
		}
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return doctor.Item{Name: name, Text: fmt.Sprintf("(%v)\n", err)}
		}
		return doctor.Item{Name: name, Text: string(text) + "\n"}
	}
	st, stErr := client.New(p).Status(ctx)
	runs, runsErr := state.NewHistory(p.History()).Runs()
	return []doctor.Item{
		{Name: "about.txt", Text: fmt.Sprintf("tunctl %s\n%s/%s, %s\n", version(), runtime.GOOS, runtime.GOARCH, runtime.Version())},
		value("checks.json", checks, nil),
		value("status.json", st.WithoutLogins(), stErr),
		value("history.json", runs, runsErr),
		file("config.toml", p.Config),
		file("agent.log", p.Log()),
	}
}

// scrubber replaces the person's names, here and on each host.
func scrubber(ctx context.Context, p home.Paths, cfg *configs.Config) *doctor.Scrubber {
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
	env := newEnvironment(p, cfg)
	for _, host := range cfg.HostNames() {
		if h, err := env.Resolve(ctx, host); err == nil {
			names[h.User] = "user"
		}
	}
	delete(names, "")
	delete(names, "/")
	return doctor.NewScrubber(names)
}
