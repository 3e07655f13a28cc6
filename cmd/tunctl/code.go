package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/atomicfile"
	"tunctl/internal/editor"
	"tunctl/internal/home"
	"tunctl/internal/posixsh"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

func codeCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "code",
		Usage:     "edit inside a job: " + editor.Names(),
		ArgsUsage: "[SESSION [PATH]]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "editor", Usage: "the name or path of an `EDITOR`", EnvVars: []string{"TUNCTL_EDITOR"}},
			&cli.BoolFlag{Name: "print", Usage: "print the editor's command instead of running it"},
		},
		Action: invokeInterruptible(t, takes(0, 2, "code takes a session and, optionally, a folder or a file", openCode)),
	}
}

func openCode(ctx context.Context, inv *invocation) error {
	name, err := inv.chooseSession(ctx, "Open an editor inside the job of which session?", "no session has a running job", api.Session.RunsJob)
	if err != nil {
		return err
	}
	s, err := inv.sessionInside(ctx, strings.TrimSuffix(name, aliasSuffix))
	if err != nil {
		return err
	}
	e, program, err := editor.Find(inv.String("editor"))
	if inv.Bool("print") && api.HasCode(err, api.CodeFailed) {
		inv.Say("! %s was not found on this computer", e.Title)
		program, err = e.Command, nil
	}
	if err != nil {
		return err
	}
	if err := inv.ensureSSHConfig(ctx, s.Name); err != nil {
		return err
	}
	path, isFile, err := inv.resolveInside(ctx, s.Name, inv.Args().Get(1))
	if err != nil {
		return err
	}
	args := e.OpenArguments(s.Name+aliasSuffix, path, isFile)
	if inv.Bool("print") {
		_, err := fmt.Fprintln(inv.Out, posixsh.Join(append([]string{program}, args...)))
		return err
	}
	if e.LacksExtension(ctx, program) {
		inv.Say("! %s needs an extension: `%s --install-extension %s`", e.Title, e.Typed(program), e.Extension)
	}
	inv.adviseSettings(e)
	cmd := exec.CommandContext(ctx, program, args...) // it ends once its window is open
	cmd.Stdout, cmd.Stderr = inv.Err, inv.Err
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	inv.Say("%s opened %s inside job %s on %s: %s", inv.Paint(term.Green, "✓"), e.Title, s.Job.ID, s.Job.Node, path)
	return nil
}

// sessionInside is a session whose job runs. It starts nothing: that would spend an allocation.
func (inv *invocation) sessionInside(ctx context.Context, name string) (api.Session, error) {
	cfg := readConfig(inv.paths)
	st, err := inv.status(ctx)
	if err != nil {
		return api.Session{}, err
	}
	s, known := st.Session(name)
	set, configured := cfg.Session(name)
	isHost := slices.Contains(knownHosts(cfg), name)
	switch {
	case isHost && known: // the host has the name NAME.tun
		return s, api.Errorf(api.CodeConfig, "%s%s is the login node of host %[1]s, not the job of session %[1]s", name, aliasSuffix).
			WithHint("rename the session in the config: `tunctl config edit`")
	case isHost:
		return s, api.Errorf(api.CodeUsage, "%s is a host: code opens an editor inside the job of a session", name).
			WithHint("most centres forbid editors on login nodes; available: %s", strings.Join(sessionNames(st.Sessions), ", "))
	case !known:
		return s, unknownSession(name, st)
	case configured && !configuresJob(set):
		return s, api.Errorf(api.CodeUsage, "session %s has only forwards: there is no job to open an editor in", name).
			WithHint("`tunctl init` adds a session with a job")
	case !s.IsUp():
		return s, downError(st, name)
	case !s.RunsJob() || s.Job.Node == "":
		return s, api.Errorf(api.CodeNotReady, "the job of session %s does not run yet: it is %s%s", name, s.State, show.Because(s.Cause)).
			WithHint("`tunctl up %s` waits for it; then run this again", name)
	}
	return s, nil
}

// ensureSSHConfig makes sure that ssh knows NAME.tun, which editors connect to. It changes the
// user's ssh config only if they agree.
func (inv *invocation) ensureSSHConfig(ctx context.Context, name string) error {
	file, _, err := personalSSHConfig(inv.paths)
	if err != nil || hasInclude(file, inv.paths) {
		return err
	}
	missing := api.Errorf(api.CodeConfig, "ssh does not know %s%s yet, which the editor connects to", name, aliasSuffix).
		WithHint("`tunctl ssh-config install` adds one line to your ssh config, and keeps a backup")
	if !inv.Interactive {
		return missing
	}
	if yes, _ := inv.Agrees(ctx, fmt.Sprintf("The editor connects by ssh: add a line for %s%s to %s?", name, aliasSuffix, file), true); !yes {
		return missing
	}
	return sshConfigInstall(ctx, inv)
}

// hasInclude reports whether `tunctl ssh-config install` has changed an ssh config.
func hasInclude(file string, p home.Paths) bool {
	text, err := os.ReadFile(file)
	_, missing := os.Stat(includedFile(p))
	return err == nil && missing == nil && strings.Contains(string(text), "Include "+quotePath(includedFile(p)))
}

// resolveInside finds a folder or a file inside the session's job: "" is the session's workdir,
// or the home folder.
func (inv *invocation) resolveInside(ctx context.Context, session, path string) (found string, isFile bool, err error) {
	if path == "" {
		path = "~"
		if s, ok := readConfig(inv.paths).Session(session); ok && s.Workdir != "" {
			path = s.Workdir
		}
	}
	out, err := runInside(ctx, inv, session, resolveScript(path))
	if _, ended := errors.AsType[exitError](err); err != nil && !ended {
		return "", false, err
	}
	_, answer, ok := strings.Cut("\n"+out, "\n"+resolved) // a start-up file may have printed something before
	kind, found, _ := strings.Cut(strings.TrimSuffix(answer, "\n"), " ")
	if !ok || kind != "folder" && kind != "file" {
		return "", false, api.Errorf(api.CodeFailed, "%s does not exist inside the job of %s", path, session).
			WithHint("a relative path starts at your home folder there: `tunctl ssh %s ls` lists it", session)
	}
	return found, kind == "file", nil
}

// resolved begins the line with the result of resolveScript.
const resolved = "tunctl-path "

// resolveScript prints a path as an absolute one, and whether it is a folder. A relative one
// starts at the home folder. So does one below this computer's home folder if there is no such
// path: the shell here has expanded a ~.
func resolveScript(path string) string {
	candidates := []string{posixsh.QuotePath(path)}
	if dir, err := os.UserHomeDir(); err == nil {
		if rest, err := filepath.Rel(dir, path); err == nil && filepath.IsAbs(path) && filepath.IsLocal(rest) {
			candidates = append(candidates, posixsh.QuotePath("~/"+filepath.ToSlash(rest)))
		}
	}
	return fmt.Sprintf(`unset CDPATH
cd || exit
for path in %s; do
	if [ -d "$path" ]; then
		cd -- "$path" && printf '%s%%s %%s\n' folder "$(pwd)"
		exit
	elif [ -e "$path" ]; then
		name=${path##*/}
		case $path in */*) cd -- "${path%%/*}/" || exit ;; esac
		printf '%s%%s %%s/%%s\n' file "$(pwd)" "$name"
		exit
	fi
done
`, strings.Join(candidates, " "), resolved, resolved)
}

// runInside is what a script prints inside the job of a session.
func runInside(ctx context.Context, inv *invocation, session, script string) (string, error) {
	req, err := inv.destination(ctx, session)
	if err != nil {
		return "", err
	}
	conn, err := dialGateway(ctx, inv, req)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	s, err := conn.NewSession()
	if err != nil {
		return "", err
	}
	s.Stdin = strings.NewReader(script)
	out, err := s.Output(posixsh.Script)
	return string(out), exitOf(session, err)
}

// adviseSettings shows, once, the settings that the editor lacks for work inside jobs.
func (inv *invocation) adviseSettings(e editor.Editor) {
	missing := slices.Clone(e.Settings)
	if file, own, err := personalSSHConfig(inv.paths); err == nil && !own {
		missing = append(missing, editor.Setting{Key: "remote.SSH.configFile", Value: fmt.Sprintf("%q", file), Why: "your ssh config is not ~/.ssh/config"})
	}
	missing = slices.DeleteFunc(missing, func(s editor.Setting) bool { return e.HasSetting(s.Key) })
	shown := filepath.Join(inv.paths.State, "editor-"+e.Command+".shown")
	if _, err := os.Stat(shown); err == nil {
		return
	}
	if len(e.Settings) == 0 {
		inv.Say("! if the node has no internet access, %s may not be able to start its server there", e.Title)
	}
	if len(missing) > 0 {
		inv.Say("! recommended settings of %s, for %s:", e.Title, cmp.Or(e.SettingsFile(), "its settings.json"))
	}
	for _, s := range missing {
		inv.Say("    // %s\n    %q: %s,", s.Why, s.Key, s.Value)
	}
	_ = atomicfile.Write(shown, nil, 0o600) // else they are shown again
}
