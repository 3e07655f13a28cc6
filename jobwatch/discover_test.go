//go:build unix

package jobwatch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
	"tunctl/jobwatch/remote"
)

// discoverySample is a sample of an answer to a look.
func discoverySample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "discover", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readAnswers reads a look whose parts printed these samples.
func readAnswers(t *testing.T, scheduler string, samples map[string]string) api.Look {
	t.Helper()
	out := "\nMARK person\n" + scheduler + "\nstudent\n/home/student\nstudent users phys\n"
	for part, name := range samples {
		out += "\nMARK " + part + "\n" + discoverySample(t, name)
	}
	return readDiscovery("MARK", out)
}

func names(list []api.Partition) []string {
	all := make([]string, len(list))
	for i, p := range list {
		all[i] = p.Name
	}
	return all
}

func partitionNamed(t *testing.T, look api.Look, name string) api.Partition {
	t.Helper()
	i := slices.IndexFunc(look.Partitions, func(p api.Partition) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no %s in %v", name, names(look.Partitions))
	}
	return look.Partitions[i]
}

func TestADiscoveryAtSlurmHasThePartitionsThatThePersonMayUse(t *testing.T) {
	look := readAnswers(t, slurmName, map[string]string{"accounts": "slurm-associations", "partitions": "slurm-partitions", "nodes": "slurm-nodes"})
	if got, want := names(look.Partitions), []string{"batch", "long", "gpu", "turing", "debug", "free"}; !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
	batch, gpu, long, debug := partitionNamed(t, look, "batch"), partitionNamed(t, look, "gpu"), partitionNamed(t, look, "long"), partitionNamed(t, look, "debug")
	if !batch.Default || batch.LimitSeconds != 3*24*3600 || batch.CPUs != 2560 || batch.FreeCPUs != 212 || batch.NodeMB != 512000 || batch.GPUOnly {
		t.Errorf("batch is %+v", batch)
	}
	if gpu.LimitSeconds != 36*3600 || !slices.Equal(gpu.GPUTypes, []string{"a100", "h100"}) || gpu.GPUs != 32 || gpu.FreeGPUs != 4+8 || !gpu.GPUOnly ||
		!slices.Equal(gpu.Accounts, []string{"phys-gpu"}) || gpu.QoS != "" {
		t.Errorf("gpu is %+v", gpu)
	}
	if turing := partitionNamed(t, look, "turing"); turing.GPUs != 4*(8+2) || turing.FreeGPUs != 4*(3+2) || !slices.Equal(turing.GPUTypes, []string{"2080ti", "1080"}) {
		t.Errorf("turing is %+v", turing)
	}
	if long.QoS != "long" || !slices.Equal(long.Accounts, []string{"def-lab"}) {
		t.Errorf("long is %+v", long)
	}
	if slices.Contains(debug.Accounts, "teach") || !slices.Contains(debug.Accounts, "def-lab") {
		t.Errorf("debug is %+v", debug)
	}
}

func TestADiscoveryAtSlurmNamesTheDefaultAccountFirst(t *testing.T) {
	out := "\nMARK person\nslurm\nstudent\n/home/student\nusers\n\nMARK accounts\n" + discoverySample(t, "slurm-associations") + "\nMARK default\nteach\n"
	look := readDiscovery("MARK", out)
	if len(look.Accounts) != 3 || look.Accounts[0].Name != "teach" || !look.Accounts[0].Default || look.Accounts[1].Source != "sacctmgr" {
		t.Errorf("accounts %+v", look.Accounts)
	}
	if look.Accounts[2].Partition != "gpu" || look.Accounts[2].DefaultQoS != "gpuq" {
		t.Errorf("accounts %+v", look.Accounts)
	}
	look = readDiscovery("MARK", "\nMARK person\nslurm\nstudent\n/home/student\nusers\n\nMARK accounts\n proj1\n proj2\n")
	if len(look.Accounts) != 2 || look.Accounts[0].Source != "sshare" {
		t.Errorf("without the database: %+v", look.Accounts)
	}
}

func TestADiscoveryAtPBSHasTheQueuesThatThePersonMayUse(t *testing.T) {
	look := readAnswers(t, pbsName, map[string]string{"queues": "pbs-queues", "server": "pbs-server", "nodes": "pbs-nodes"})
	if got, want := names(look.Partitions), []string{"workq", "chem", "large", "gpu"}; !slices.Equal(got, want) {
		t.Errorf("queues %v, want %v", got, want)
	}
	if q := partitionNamed(t, look, "workq"); !q.Default || q.LimitSeconds != 120*3600 {
		t.Errorf("a queue has the limit of those that it routes to, but is %+v", q)
	}
	if want := (api.PartitionUsage{CPUs: 144, FreeCPUs: 70, GPUs: 8, FreeGPUs: 4, NodeCPUs: 64, NodeMB: 503 << 10, IdleNodes: look.Cluster.IdleNodes, Guess: true}); look.Cluster != want {
		t.Errorf("the cluster is %+v, want %+v", look.Cluster, want)
	}
}

func TestADiscoveryAtGridEngineSumsUpTheInstancesOfAQueue(t *testing.T) {
	look := readAnswers(t, gridEngineName, map[string]string{"queues": "gridengine-queues"})
	if got, want := names(look.Partitions), []string{"all.q", "gpu-with-a-rather-long-name.q", "short.q"}; !slices.Equal(got, want) {
		t.Errorf("queues %v, want %v", got, want)
	}
	if q := partitionNamed(t, look, "all.q"); q.CPUs != 32 || q.FreeCPUs != 13 || q.LimitSeconds != 0 {
		t.Errorf("all.q is %+v", q)
	}
	if q := partitionNamed(t, look, "gpu-with-a-rather-long-name.q"); q.FreeGPUs != 3 || !q.GPUOnly || q.LimitSeconds != 4*3600 {
		t.Errorf("the queue with GPUs is %+v", q)
	}
	if q := partitionNamed(t, look, "short.q"); q.FreeCPUs != 0 || q.LimitSeconds != 600 {
		t.Errorf("a queue that is not reachable is %+v", q)
	}
}

func TestNothingThatAHostPrintsLeavesADiscoveryAsMoreThanAWord(t *testing.T) {
	hostile := "\x1b]0;title\a $(reboot) `reboot` a;b \"x\" 'y' -rf ../.."
	for _, scheduler := range []string{slurmName, pbsName, gridEngineName, noScheduler} {
		out := "\nMARK person\n" + scheduler + "\n" + hostile + "\n" + hostile + "\n" + hostile + "\n"
		for _, part := range []string{"accounts", "default", "projects", "parallel", "modules", "queues", "partitions", "nodes", "environments", "path", "scripts"} {
			out += "\nMARK " + part + "\n" + hostile + "\nQueue: " + hostile + "\nPartitionName=" + strings.ReplaceAll(hostile, " ", "") + " State=UP\nvenv\t/x" + hostile + "\tjupyterlab\t" + hostile + "\n" +
				"script\t/x" + hostile + "\n#SBATCH -J $(reboot)\n#PBS -N $(reboot)\n#$ -N $(reboot)\n"
		}
		look := readDiscovery("MARK", out)
		if n := len(look.Accounts) + len(look.Partitions) + len(look.Environments) + len(look.Scripts) + len(look.Parallel); n > 0 || look.User != "" || look.Home != "" {
			t.Errorf("%s: %+v", scheduler, look)
		}
	}
}

func TestTheNameOfAJobIsNotTheRangeOfAnArray(t *testing.T) {
	look := readDiscovery("MARK", "\nMARK person\npbs\nstudent\n/home/student\nusers\n\nMARK scripts\nscript\t/home/student/arr.sh\n#PBS -N sweep\n#PBS -J 1-3\n#PBS -P phys\n")
	if want := (api.JobScript{Path: "/home/student/arr.sh", Job: "sweep", Account: "phys"}); len(look.Scripts) != 1 || look.Scripts[0] != want {
		t.Errorf("%+v", look.Scripts)
	}
}

// furnishHome puts environments, images and scripts in a home.
func furnishHome(t *testing.T, m *jobtest.Machine) {
	t.Helper()
	folder := func(name string) {
		if err := os.MkdirAll(m.File(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, env := range []struct{ path, mark, app string }{
		{".venv", "pyvenv.cfg", ""}, // without Jupyter
		{"work/envs/lab", "pyvenv.cfg", "jupyterlab-4.2.5.dist-info"},
		{"a/b/c/d", "pyvenv.cfg", "jupyterlab-4.9.0.dist-info"}, // too deep
		{"miniforge3/envs/old", "conda-meta/x", "notebook-6.0.3-py3.8.egg-info"},
		{"../scratch/env", "conda-meta/x", "jupyterlab-3.6.1.dist-info"},
	} {
		folder(filepath.Join(env.path, "lib/python3.11/site-packages", env.app))
		folder(filepath.Dir(filepath.Join(env.path, env.mark)))
		m.Write(t, filepath.Join(env.path, env.mark), "")
	}
	folder(".conda")
	m.Write(t, ".conda/environments.txt", m.File("../scratch/env")+"\n/no/such/env\n")
	folder("images")
	m.Write(t, "images/jupyter.sif", "")
	folder("proj")
	m.Write(t, "proj/notebook.sbatch", "#!/bin/bash\n#SBATCH --job-name=lab -A def-lab\n#SBATCH --time=1:00:00\nmodule load x\njupyter lab --no-browser\n")
	m.Write(t, "convert.sh", "#!/bin/bash\n#SBATCH --job-name=x\njupyter nbconvert a.ipynb\n")
	m.Write(t, "comment.sh", "#!/bin/bash\n#SBATCH --job-name=x\n# jupyter lab would be nice\n")
	m.Write(t, "pbs.sh", "#!/bin/bash\n#PBS -N x\njupyter lab\n") // of another scheduler
	m.Write(t, ".profile", m.PathLine()+"module() { cat '"+m.File("modules.txt")+"' >&2; }\n")
	m.Write(t, "modules.txt", discoverySample(t, "modules"))
	m.Program(t, "sbatch", "")
	m.Program(t, "squeue", "")
}

func TestADiscoveryFindsTheEnvironmentsAndScriptsOfAHome(t *testing.T) {
	t.Parallel()
	m := jobtest.NewMachine(t)
	furnishHome(t, m)
	m.Program(t, "scontrol", `case $* in *partition*) echo 'PartitionName=batch State=UP Default=YES MaxTime=1:00:00' ;; esac`)
	m.Program(t, "sacctmgr", `echo "proj||normal|"`)
	program := m.File("work/envs/lab/bin/jupyter")
	if err := errors.Join(os.Mkdir(filepath.Dir(program), 0o755), os.WriteFile(program, nil, 0o700), os.Symlink(program, filepath.Join(m.Bin, "jupyter"))); err != nil {
		t.Fatal(err)
	}
	look, err := NewWatcher(m, Options{}).Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if look.Scheduler != slurmName || len(look.Accounts) != 1 || len(look.Partitions) != 1 || look.Partitions[0].LimitSeconds != 3600 || len(look.Problems) != 0 {
		t.Errorf("found %+v", look)
	}
	var got []string
	for _, e := range look.Environments {
		if strings.HasPrefix(e.Path, "/usr") {
			continue // this computer's own
		}
		got = append(got, strings.TrimPrefix(strings.Join([]string{string(e.Kind), strings.TrimPrefix(e.Path, filepath.Dir(m.Home)+"/"), e.App, e.Version}, " "), " "))
	}
	want := []string{
		"venv ho me/work/envs/lab jupyterlab 4.2.5",
		"conda scratch/env jupyterlab 3.6.1",
		"conda ho me/miniforge3/envs/old notebook 6.0.3",
		"path bin/jupyter jupyterlab 4.2.5",
		"module jupyterlab/4.2.5  4.2.5",
		"module JupyterLab/4.0.5-GCCcore-12.3.0  4.0.5-GCCcore-12.3.0",
		"module jupyter-server/2.7  2.7",
		"module jupyter  ",
		"container ho me/images/jupyter.sif  ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("environments\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if want := []api.JobScript{{Path: m.File("proj/notebook.sbatch"), Job: "lab", Account: "def-lab"}}; !slices.Equal(look.Scripts, want) {
		t.Errorf("scripts %+v, want %+v", look.Scripts, want)
	}
}

func TestADiscoveryIsTheSameInEveryShell(t *testing.T) {
	t.Parallel()
	for _, shell := range [][]string{{"dash"}, {"bash"}, {"bash", "--posix"}, {"ksh"}, {"mksh"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err != nil {
			continue
		}
		m := jobtest.NewMachine(t)
		furnishHome(t, m)
		home := filepath.Join(t.TempDir(), "link") // as homes often are
		if err := os.Symlink(m.Home, home); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), shell[0], append(shell[1:], "-c", m.PathLine()+discoverScript("MARK", slurmName, wait.Limit, true))...)
		cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin"}
		out, err := cmd.Output()
		look := readDiscovery("MARK", string(out))
		if err != nil || len(look.Scripts) != 1 || len(look.Problems) != 0 || !slices.ContainsFunc(look.Environments, func(e api.Environment) bool { return e.Version == "4.2.5" }) {
			t.Errorf("%v: %v\n%+v\n%s", shell, err, look, out)
		}
	}
}

func TestADiscoveryEndsWhatHangsAndLeavesNothingRunning(t *testing.T) {
	testprogram.Need(t, "ps") // by which the script finds what it started
	for _, shell := range []string{"dash", "bash"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			m := jobtest.NewMachine(t)
			furnishHome(t, m)
			m.Program(t, "scontrol", "echo $$ >>\"$HOME/pids\"\nsleep 1000 &\necho $! >>\"$HOME/pids\"\nwait")
			cmd := exec.CommandContext(t.Context(), shell, "-c", m.PathLine()+discoverScript("MARK", slurmName, 6*time.Second, true))
			cmd.Env = []string{"HOME=" + m.Home, "PATH=/usr/bin:/bin"}
			out, err := cmd.Output()
			if look := readDiscovery("MARK", string(out)); err != nil || len(look.Problems) == 0 {
				t.Errorf("%v, %+v", err, look)
			}
			pids := strings.Fields(m.Read(t, "pids"))
			for _, text := range pids {
				pid, err := strconv.Atoi(text)
				if err != nil {
					t.Fatal(err)
				}
				wait.Until(t, "process "+text+" is killed", func() bool { return syscall.Kill(pid, 0) != nil || isZombie(text) })
			}
			if len(pids) < 2 {
				t.Errorf("only processes %v were started", pids)
			}
		})
	}
}

// isZombie reports whether a process has ended and waits to be reaped by a parent that is
// not ours.
func isZombie(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestADiscoveryPrintsLessThanAMegabyte(t *testing.T) {
	t.Parallel()
	m := jobtest.NewMachine(t)
	furnishHome(t, m)
	for _, name := range []string{"scontrol", "sacctmgr", "sinfo"} {
		m.Program(t, name, "yes '"+strings.Repeat("x", 1000)+"'")
	}
	m.Write(t, ".profile", m.PathLine()+"module() { yes jupyter; }\n")
	res, err := remote.On(m).Login(t.Context(), discoverScript("MARK", slurmName, wait.Limit, true))
	if err != nil || len(res.Stdout) > 1e6 || len(res.Stdout) < 1e5 || strings.Contains(string(res.Stdout), "MARK late") {
		t.Errorf("%d bytes, %v", len(res.Stdout), err)
	}
}
