package real

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestJobRunsOnAComputeNodeAndItsLogIsInTheHome(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	id := lab.Submit("#!/bin/sh\n#SBATCH --output=where.%j.log\nhostname\n", "--nodelist=cn02", "--time=1:00")
	lab.WaitJob(id, "COMPLETED")
	text, err := os.ReadFile(filepath.Join(lab.Dir(), "home/hpcuser/where."+id+".log"))
	if got := strings.TrimSpace(string(text)); err != nil || got != "cn02" {
		t.Errorf("the job's log says %q, %v; want cn02", got, err)
	}
}

func TestRunningJobOpensItsNodeToItsOwner(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	id := lab.Submit("#!/bin/sh\nsleep 600\n", "--nodelist=cn01")
	lab.WaitJob(id, "RUNNING")
	if out, err := (client{lab: lab}).ssh(t, "cn01", "hostname"); err != nil || out != "cn01" {
		t.Errorf("ssh cn01 beside a job says %q, %v", out, err)
	}
	if out, err := (client{lab: lab}).ssh(t, "-l", "alice", "cn01", "hostname"); err == nil {
		t.Errorf("someone without a job there comes in and sees %q", out)
	}
	lab.Cancel(id)
	lab.WaitJob(id, "CANCELLED")
}

func TestComputeNodeIsOutOfTheLaptopsReach(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	for _, node := range []string{"cn01", "cn02", "ctl"} {
		addr := net.JoinHostPort(lab.NodeAddr(node), "22")
		if conn, err := net.DialTimeout("tcp", addr, 2*time.Second); err == nil {
			_ = conn.Close()
			t.Errorf("the laptop reaches %s at %s", node, addr)
		}
	}
	if out, err := lab.As("hpcuser", "bash", "-c", "exec 3<>/dev/tcp/cn01/22 && read -r banner <&3 && echo $banner"); err != nil || !strings.HasPrefix(out, "SSH-2.0") {
		t.Errorf("the login node hears %q from cn01, %v", out, err)
	}
}

func TestJobGetsThePretendedGPUs(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	id := lab.Submit("#!/bin/sh\n#SBATCH --output=gpu.%j.log\necho $CUDA_VISIBLE_DEVICES\n", "--partition=gpu", "--gres=gpu:2", "--time=1:00")
	lab.WaitJob(id, "COMPLETED")
	text, err := os.ReadFile(filepath.Join(lab.Dir(), "home/hpcuser/gpu."+id+".log"))
	if got := strings.TrimSpace(string(text)); err != nil || got != "0,1" {
		t.Errorf("the job sees the GPUs %q, %v", got, err)
	}
}

// logged waits for the first line of a job's log in hpcuser's home.
func logged(t *testing.T, lab *Lab, file string) string {
	t.Helper()
	var line string
	said := func() bool {
		text, _ := os.ReadFile(filepath.Join(lab.Dir(), "home/hpcuser", file))
		var whole bool
		line, _, whole = strings.Cut(string(text), "\n")
		return whole
	}
	if !poll(patience, said) {
		t.Fatalf("%s says %q", file, line)
	}
	return line
}

func TestJobsAtTheSameTimeHaveDifferentGPUs(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	const script = "#!/bin/sh\n#SBATCH --output=one.%j.log\necho GPU $CUDA_VISIBLE_DEVICES\nsleep 600\n"
	for _, want := range []string{"GPU 0", "GPU 1"} {
		id := lab.Submit(script, "--nodelist=cn02", "--gres=gpu:1")
		if got := logged(t, lab, "one."+id+".log"); got != want {
			t.Errorf("job %s has %q, not %q", id, got, want)
		}
		// A step has the GPU, but not all of what the job's script has.
		out, err := lab.As("hpcuser", "srun", "--jobid="+id, "--overlap", "sh", "-c", "echo GPU $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS")
		if err != nil || strings.TrimSpace(out) != want {
			t.Errorf("a step of job %s has %q, %v; want %q", id, out, err, want)
		}
	}
}

func TestALoginIsPartOfTheJobWhereTheNodeAdoptsIt(t *testing.T) {
	t.Parallel()
	lab := StartWith(t, Options{Adopt: true})
	id := lab.Submit("#!/bin/sh\nsleep 600\n", "--nodelist=cn01")
	lab.WaitJob(id, "RUNNING")
	out, err := (client{lab: lab}).ssh(t, "cn01", "echo $SLURM_JOB_ID; grep -c /job_"+id+"/step_extern /proc/self/cgroup")
	if err != nil || out != id+"\n1" {
		t.Errorf("a login beside job %s is in %q, %v", id, out, err)
	}
	conn := connect(t, lab, "cn01")
	lab.Cancel(id)
	lab.WaitJob(id, "CANCELLED")
	if err := conn.hear("", patience); !errors.Is(err, errEnded) {
		t.Errorf("the login is still there after the job: %v", err)
	}
}

func TestSrunOfAnotherReleaseIsFaked(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	id := lab.Submit("#!/bin/sh\nsleep 600\n", "--nodelist=cn01")
	lab.WaitJob(id, "RUNNING")
	step := []string{"srun", "--jobid=" + id, "--overlap", "--immediate=1", "hostname"}

	lab.WrapSrun(SrunWithoutOverlap)
	if out, err := lab.As("hpcuser", step...); err == nil || !strings.Contains(err.Error(), "unrecognized option") {
		t.Errorf("an old srun with --overlap says %q, %v", out, err)
	}
	if out, err := lab.As("hpcuser", "srun", "--jobid="+id, "hostname"); err != nil || out != "cn01\n" {
		t.Errorf("an old srun without it says %q, %v", out, err)
	}
	lab.WrapSrun(SrunWaitsForMemory)
	if out, err := lab.As("hpcuser", step...); err == nil || !strings.Contains(err.Error(), "temporarily disabled") {
		t.Errorf("an srun that waits for memory says %q, %v", out, err)
	}
	if out, err := lab.As("hpcuser", "srun", "--mem=0", "--jobid="+id, "--overlap", "hostname"); err != nil || out != "cn01\n" {
		t.Errorf("the same with --mem=0 says %q, %v", out, err)
	}
}

func TestJobOfALowPartitionGivesWay(t *testing.T) {
	t.Parallel()
	lab := Start(t)
	low := lab.Submit("#!/bin/sh\nsleep 600\n", "--partition=low", "--nodelist=cn01", "--exclusive")
	lab.WaitJob(low, "RUNNING")
	high := lab.Submit("#!/bin/sh\nsleep 600\n", "--nodelist=cn01")
	lab.WaitJob(high, "RUNNING")
	if state := lab.JobState(low); state == "RUNNING" {
		t.Error("both jobs run")
	}
}

func TestNotebookServesFromAComputeNode(t *testing.T) {
	Need(t, "jupyter")
	t.Parallel()
	lab := Start(t)
	id := lab.Submit("jupyter.sh")
	log := filepath.Join(lab.Dir(), "home/hpcuser/jupyterlab."+id+".log")
	var server []string
	announced := func() bool {
		text, _ := os.ReadFile(log)
		server = regexp.MustCompile(`listen on: (\S+)(?s:.*)\?token=([0-9a-f]+)`).FindStringSubmatch(string(text))
		return server != nil
	}
	if !poll(patience, announced) {
		text, err := os.ReadFile(log)
		t.Fatalf("the log says %q, %v", text, err)
	}
	ask := "exec 3<>/dev/tcp/" + strings.Replace(server[1], ":", "/", 1) +
		" && printf 'GET /api/status?token=" + server[2] + " HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
	if out, err := (client{lab: lab}).ssh(t, "lab-login", ask); err != nil || !strings.Contains(out, `"started"`) {
		t.Errorf("the notebook at %s says %q, %v", server[1], out, err)
	}
}

func TestAccountsLimitWhoHasThem(t *testing.T) {
	t.Parallel()
	lab := StartWith(t, Options{Accounting: true})
	id := lab.Submit("#!/bin/sh\ntrue\n", "--time=1:00", "--account=proj1")
	lab.WaitJob(id, "COMPLETED")
	known := func() bool {
		out, err := lab.As("hpcuser", "sacct", "-X", "-n", "-P", "-j", id, "-o", "State,Account")
		return err == nil && strings.TrimSpace(out) == "COMPLETED|proj1"
	}
	if !poll(patience, known) {
		out, err := lab.As("hpcuser", "sacct", "-X", "-n", "-P", "-j", id, "-o", "State,Account")
		t.Errorf("sacct says %q, %v", out, err)
	}
	if out, err := lab.As("nobank", "sbatch", "--wrap", "true"); err == nil || !strings.Contains(err.Error(), "Invalid account") {
		t.Errorf("a person without an account submits: %q, %v", out, err)
	}
	first := lab.Submit("#!/bin/sh\nsleep 600\n", "--account=proj2")
	lab.WaitJob(first, "RUNNING")
	second := lab.Submit("#!/bin/sh\nsleep 600\n", "--account=proj2")
	limited := func() bool {
		out, _ := lab.As("hpcuser", "squeue", "-h", "-j", second, "-o", "%r")
		return strings.TrimSpace(out) == "AssocGrpJobsLimit"
	}
	if !poll(patience, limited) {
		out, err := lab.As("hpcuser", "squeue", "-h", "-j", second, "-o", "%T %r")
		t.Errorf("the second job of proj2 is %q, %v", out, err)
	}
}
