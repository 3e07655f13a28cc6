package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// killWait is how long a job may take to end after it was asked to.
const killWait = 2 * time.Second

// spool keeps the script as it was when submitted, as the real ones do.
func (j *job) spool(dir string) error {
	dir = filepath.Join(dir, fmt.Sprintf("job%05d", j.seq))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	j.spoolIn = dir
	return writeProgram(filepath.Join(dir, "slurm_script"), j.text)
}

// run runs a job once, and reports whether it goes back into the queue.
func (b *batch) run(j *job) (again bool) {
	proc, logs, err := b.launch(j)
	if err != nil {
		b.c.log.Warn("practice job did not start", "job", j.ID, "err", err)
		// As Slurm does for an output folder that is not there.
		b.update(func() { j.State, j.Reason, j.Signal, j.Ended = stateFailed, "NonZeroExitCode", 53, time.Now() })
		return false
	}
	b.update(func() { j.pid = proc.pid() })
	why, timedOut := b.watch(j, proc, logs)
	exit, signal := proc.result()
	logs.close()
	if err := j.deliver(); err != nil {
		b.c.log.Warn("practice job's output could not be delivered", "job", j.ID, "err", err)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if why == stopRequeue {
		j.State, j.Reason, j.Expected = statePending, "BeginTime", time.Now().Add(b.queueFor)
		j.Restarts++
		j.Started, j.pid = time.Time{}, 0
		return true
	}
	j.Exit, j.Signal, j.Ended, j.Reason = exit, signal, time.Now(), "None"
	switch {
	case timedOut:
		j.State, j.Reason = stateTimeout, "TimeLimit"
	case why == stopCancel || b.c.ctx.Err() != nil:
		j.State = stateCancelled
	case exit != 0 || signal != 0:
		j.State, j.Reason = stateFailed, "NonZeroExitCode"
	default:
		j.State = stateCompleted
	}
	return false
}

// watch waits for the job's own end, its time limit or a request to stop it.
func (b *batch) watch(j *job, proc process, logs *jobLogs) (why stopReason, timedOut bool) {
	limit := time.NewTimer(j.limit)
	defer limit.Stop()
	select {
	case <-proc.done():
		return "", false
	case why = <-j.stops:
	case <-limit.C:
		timedOut = true
	case <-b.c.ctx.Done():
	}
	b.update(func() { j.State = stateEnding })
	logs.note(b.obituary(j, why, timedOut))
	if why == stopKill {
		proc.kill()
	} else {
		proc.terminate()
	}
	timer := time.NewTimer(killWait)
	defer timer.Stop()
	select {
	case <-proc.done():
	case <-timer.C:
		proc.kill()
		<-proc.done()
	}
	return why, timedOut
}

// obituary is what the batch system writes into the log of a job that it ends.
func (b *batch) obituary(j *job, why stopReason, timedOut bool) string {
	if b.c.dialect == PBS {
		if timedOut {
			return fmt.Sprintf("=>> PBS: job killed: walltime %d exceeded limit %d\n",
				int(time.Since(j.Started).Seconds()), int(j.limit.Seconds()))
		}
		return ""
	}
	suffix := ""
	switch {
	case timedOut:
		suffix = " DUE TO TIME LIMIT"
	case why == stopRequeue:
		suffix = " DUE TO JOB REQUEUE"
	case why == stopKill:
		return ""
	}
	return fmt.Sprintf("slurmstepd: error: *** JOB %s ON %s CANCELLED AT %s%s ***\n",
		j.ID, j.Node, time.Now().Format(isoTime), suffix)
}

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
	script := filepath.Join(j.spoolIn, "slurm_script")
	env := slices.Concat(b.c.loginEnv(), j.env, b.jobEnv(j))
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

type shellProcess struct {
	cancel context.CancelFunc
	ended  chan struct{}
	exit   int
	ctx    context.Context
}

func (p *shellProcess) pid() int              { return os.Getpid() }
func (p *shellProcess) terminate()            { p.cancel() }
func (p *shellProcess) kill()                 { p.cancel() }
func (p *shellProcess) done() <-chan struct{} { return p.ended }

func (p *shellProcess) result() (exit, signal int) {
	if p.ctx.Err() != nil {
		return 0, 15
	}
	return p.exit, 0
}

func (b *batch) interpret(j *job, env environment, dir string, logs *jobLogs) *shellProcess {
	p := &shellProcess{ended: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(b.c.ctx)) // ended by watch, like a real one
	sh := &shell{c: b.c, env: env, dir: dir, stdout: logs.out, stderr: logs.err}
	b.c.wg.Go(func() {
		defer close(p.ended)
		null, err := os.Open(os.DevNull)
		if err != nil {
			p.exit = sh.fail(1, err)
			return
		}
		defer func() { _ = null.Close() }()
		sh.stdin = null
		p.exit = sh.script(p.ctx, j.Name, j.text, j.args)
	})
	return p
}

// jobLogs are a running job's open output files.
type jobLogs struct {
	out, err *os.File
}

func (l *jobLogs) note(text string) {
	if text != "" {
		_, _ = io.WriteString(l.err, text)
	}
}

func (l *jobLogs) close() {
	_ = l.out.Close()
	if l.err != l.out {
		_ = l.err.Close()
	}
}

func (j *job) openLogs() (*jobLogs, error) {
	out, err := j.openLog(j.Log, "OU")
	if err != nil {
		return nil, err
	}
	if j.errFile == j.Log {
		return &jobLogs{out: out, err: out}, nil
	}
	errs, err := j.openLog(j.errFile, "ER")
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return &jobLogs{out: out, err: errs}, nil
}

// openLog opens an output file, or what PBS spools it in until the job ends.
func (j *job) openLog(path, kind string) (*os.File, error) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	switch {
	case j.spools:
		path = j.spoolPath(kind)
	case !j.appendLog:
		flags |= os.O_TRUNC
	}
	return os.OpenFile(path, flags, 0o600)
}

func (j *job) spoolPath(kind string) string { return filepath.Join(j.spoolIn, j.ID+"."+kind) }

// deliver copies spooled output to where it was asked for, as PBS does at the end.
func (j *job) deliver() error {
	if !j.spools {
		return nil
	}
	kinds := map[string]string{"OU": j.Log}
	if j.errFile != j.Log {
		kinds["ER"] = j.errFile
	}
	for kind, path := range kinds {
		text, err := os.ReadFile(j.spoolPath(kind))
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil { //nolint:gosec // where the submitter asked for it
			return err
		}
	}
	return nil
}
