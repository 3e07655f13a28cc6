package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// process is a job's running script: a real one, or one interpreted here.
type process interface {
	pid() int
	terminate()
	kill()
	done() <-chan struct{}
	result() (exit, signal int) // after done
}

// launch starts the job's script on its node.
func (b *batch) launch(j *job) (process, *jobLogs, error) {
	logs, err := j.openLogs()
	if err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(j.nodeFile(), []byte(j.Node+"\n"), 0o600); err != nil {
		logs.close()
		return nil, nil, err
	}
	script := filepath.Join(j.spoolIn, "slurm_script")
	env := slices.Concat(b.c.loginEnv(), j.env, b.jobEnv(j))
	if err := os.WriteFile(b.stepEnvironment(j), env.script(), 0o600); err != nil {
		logs.close()
		return nil, nil, err
	}
	dir := j.WorkDir
	if b.c.dialect == PBS {
		dir = b.c.Home() // PBS leaves it to the script to go where it was submitted
	}
	if b.inProcess(j) {
		return b.interpret(j, env, dir, logs), logs, nil
	}
	argv := append([]string{script}, j.args...)
	if shellScripts[interpreter(j.text)] {
		argv = append([]string{b.c.shell}, argv...) // wherever this computer has it
	}
	// Not ended by the cluster's context: watch does that, and asks first.
	cmd := exec.CommandContext(context.WithoutCancel(b.c.ctx), argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env, dir
	cmd.Stdout, cmd.Stderr = logs.out, logs.err
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		logs.close()
		return nil, nil, err
	}
	p := &osProcess{cmd: cmd, ended: make(chan struct{})}
	b.c.wg.Go(p.wait)
	return p, logs, nil
}

// stepEnvironment is the file with a running job's environment, for its steps.
func (b *batch) stepEnvironment(j *job) string {
	return filepath.Join(b.c.spoolDir(), j.ID+".environment")
}

// inProcess reports whether a script must be interpreted here: because it is for a
// bash that is not there, or serves the page and no command was given for that.
func (b *batch) inProcess(j *job) bool {
	if interpreter(j.text) == "bash" && filepath.Base(b.c.shell) != "bash" {
		return true
	}
	return len(b.c.page) == 0 && strings.Contains(j.text, pageProgram)
}

// shellScripts are the interpreters for which the cluster's shell serves.
var shellScripts = map[string]bool{"": true, "sh": true, "bash": true}

// interpreter is the program that a script's first line asks for.
func interpreter(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) == "env" && len(words) > 1 {
		return words[1]
	}
	return filepath.Base(words[0])
}

// osProcess is a script in a process of its own.
type osProcess struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func (p *osProcess) pid() int              { return p.cmd.Process.Pid }
func (p *osProcess) terminate()            { _ = terminateGroup(p.cmd.Process) }
func (p *osProcess) kill()                 { _ = killGroup(p.cmd.Process) }
func (p *osProcess) done() <-chan struct{} { return p.ended }

func (p *osProcess) wait() {
	_ = p.cmd.Wait()
	_ = killGroup(p.cmd.Process) // what the script left behind ends with the job
	close(p.ended)
}

func (p *osProcess) result() (exit, signal int) {
	if signal := exitSignal(p.cmd.ProcessState); signal != 0 {
		return 0, signal
	}
	return p.cmd.ProcessState.ExitCode(), 0
}

// shellProcess is a script interpreted here, which a cancelled context ends.
type shellProcess struct {
	cancel       context.CancelFunc
	ended        chan struct{}
	exit, signal int
}

func (p *shellProcess) pid() int                   { return os.Getpid() }
func (p *shellProcess) terminate()                 { p.cancel() }
func (p *shellProcess) kill()                      { p.cancel() }
func (p *shellProcess) done() <-chan struct{}      { return p.ended }
func (p *shellProcess) result() (exit, signal int) { return p.exit, p.signal }

func (b *batch) interpret(j *job, env environment, dir string, logs *jobLogs) *shellProcess {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.c.ctx)) // ended by watch, like a real one
	p := &shellProcess{cancel: cancel, ended: make(chan struct{})}
	sh := &shell{c: b.c, env: env, dir: dir, stdout: logs.out, stderr: logs.err}
	b.c.wg.Go(func() {
		defer close(p.ended)
		defer cancel()
		p.exit = sh.script(ctx, j.Name, j.text, j.args)
		if ctx.Err() != nil {
			p.exit, p.signal = 0, int(syscall.SIGTERM)
		}
	})
	return p
}
