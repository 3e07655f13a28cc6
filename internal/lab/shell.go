package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// shell interprets a script in this process: for the built-in job where there is
// no bash, or no command that serves its page.
type shell struct {
	c              *Cluster
	env            environment
	dir            string
	stdout, stderr io.Writer
}

// script runs a script's text and returns its exit status.
func (sh *shell) script(ctx context.Context, name, text string, args []string) int {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), name)
	if err != nil {
		return sh.fail(2, err)
	}
	runner, err := interp.New(
		interp.Env(expand.ListEnviron(sh.env...)),
		interp.Dir(sh.dir),
		interp.StdIO(nil, sh.stdout, sh.stderr),
		interp.Params(append([]string{"--"}, args...)...),
		interp.ExecHandlers(sh.programs),
	)
	if err != nil {
		return sh.fail(2, err)
	}
	return sh.status(runner.Run(ctx, file))
}

// programs lets a script find ours before the computer's own.
func (sh *shell) programs(next interp.ExecHandlerFunc) interp.ExecHandlerFunc {
	return func(ctx context.Context, args []string) error {
		run := sh.c.programs()[args[0]]
		switch args[0] {
		case "hostname":
			run = hostname
		case pageProgram:
			run = servePage
		}
		if run == nil {
			return next(ctx, args)
		}
		hc := interp.HandlerCtx(ctx)
		status := run(ctx, &call{
			c: sh.c, args: args[1:], env: exported(hc.Env), dir: hc.Dir,
			stdin: hc.Stdin, stdout: hc.Stdout, stderr: hc.Stderr,
		})
		if status != 0 {
			return interp.ExitStatus(status)
		}
		return nil
	}
}

// exported lists the exported variables, as a program is given them.
func exported(env expand.Environ) environment {
	var list environment
	env.Each(func(name string, v expand.Variable) bool {
		if v.Exported && v.Kind == expand.String {
			list = append(list, name+"="+v.String())
		}
		return true
	})
	return list
}

func (sh *shell) status(err error) int {
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[interp.ExitStatus](err); ok {
		return int(status)
	}
	return sh.fail(1, err)
}

func (sh *shell) fail(status int, err error) int {
	fmt.Fprintf(sh.stderr, "bash: %v\n", err)
	return status
}

func absIn(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func hostname(_ context.Context, c *call) int {
	c.printf("%s\n", c.getenv("HOSTNAME"))
	return 0
}
