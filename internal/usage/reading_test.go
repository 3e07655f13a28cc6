package usage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/must"
	"tunctl/internal/gateway"
)

func f(v float64) *float64 { return &v }

const gib = 1 << 30

// TestReadingGPUs has what nvidia-smi 580 printed of an H200. The rest is
// in the form of nvidia-smi 535 and rocm-smi 5 and 6: no such GPU was at hand.
func TestReadingGPUs(t *testing.T) {
	for name, tt := range map[string]struct {
		lines string
		want  []api.GPUUsage
	}{
		"an H200": {
			"nvidia NVIDIA H200, 100, 2163, 143771\n", []api.GPUUsage{{Name: "NVIDIA H200", Percent: f(100), Memory: 2163 << 20, MemoryTotal: 143771 << 20}},
		},
		"two of NVIDIA's": {
			"nvidia NVIDIA A100-SXM4-40GB, 87, 31744, 40960\nnvidia NVIDIA A100-SXM4-40GB, 0, 4, 40960\n",
			[]api.GPUUsage{
				{Name: "NVIDIA A100-SXM4-40GB", Percent: f(87), Memory: 31 * gib, MemoryTotal: 40 * gib},
				{Name: "NVIDIA A100-SXM4-40GB", Percent: f(0), Memory: 4 << 20, MemoryTotal: 40 * gib},
			},
		},
		"divided by MIG": {
			"nvidia NVIDIA H100 80GB HBM3, [N/A], 2048, 81920\n",
			[]api.GPUUsage{{Name: "NVIDIA H100 80GB HBM3", Memory: 2 * gib, MemoryTotal: 80 * gib}},
		},
		"no number":  {"nvidia NVIDIA A100, nan, 0, 40960\n", []api.GPUUsage{{Name: "NVIDIA A100", MemoryTotal: 40 * gib}}},
		"an error":   {"nvidia Failed to initialize NVML: Driver/library version mismatch\n", nil},
		"no devices": {"nvidia No devices were found\n", nil},
		"one of AMD's": {
			"rocm device,GPU use (%),VRAM Total Memory (B),VRAM Total Used Memory (B),Card Series,Card Model,Card Vendor,Card SKU\n" +
				"rocm card0,12,68702699520,10960896,AMD Instinct MI250X,0x740c,Advanced Micro Devices Inc. [AMD/ATI],D65209\n",
			[]api.GPUUsage{{Name: "AMD Instinct MI250X", Percent: f(12), Memory: 10960896, MemoryTotal: 68702699520}},
		},
		"AMD's, other columns": {
			"rocm device,VRAM Total Memory (B),VRAM Total Used Memory (B),Card series,GPU use (%)\n" +
				"rocm card1,17163091968,17457152,\"Navi 21 [Radeon RX 6800, XT]\",99\n",
			[]api.GPUUsage{{Name: "Navi 21 [Radeon RX 6800, XT]", Percent: f(99), Memory: 17457152, MemoryTotal: 17163091968}},
		},
		"AMD's without numbers": {
			"rocm device,GPU use (%)\nrocm card0,N/A\nrocm \n", []api.GPUUsage{{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := parse("clock 10\ncpu 5\n" + tt.lines)
			if err != nil || !reflect.DeepEqual(r.GPUs, tt.want) {
				t.Errorf("got  %+v (%v)\nwant %+v", r.GPUs, err, tt.want)
			}
		})
	}
}

func TestReading(t *testing.T) {
	r, err := parse("clock 55173.30\ncpu 1500000\nmem 1073741824\nlimit 4294967296\ncpus 0-3,8\nnode 25274793984\n")
	want := Reading{Clock: 55173300 * time.Millisecond, CPU: 1500 * time.Millisecond, CPUs: 5, Memory: gib, MemoryLimit: 4 * gib}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("got  %+v (%v)\nwant %+v", r, err, want)
	}
	for text, limit := range map[string]int64{
		"limit max\nnode 8192\n":                 8192, // none of its own
		"limit 9223372036854771712\nnode 8192\n": 8192, // cgroup 1 writes none like this
		"node 8192\n":                            8192,
		"limit 4096\n":                           4096,
	} {
		if r, err := parse("clock 1\nmem 10\n" + text); err != nil || r.MemoryLimit != limit || r.CPU != -1 {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
	if _, err := parse("clock 55173.30\ncpus #2\nnode 25274793984\n"); err == nil {
		t.Error("a reading without figures is one")
	}
}

func TestReadingPercent(t *testing.T) {
	at := func(clock, cpu time.Duration) Reading { return Reading{Clock: clock, CPU: cpu, CPUs: 4} }
	for _, tt := range []struct {
		first, second Reading
		want          float64
		known         bool
	}{
		{at(10*time.Second, time.Second), at(20*time.Second, 21*time.Second), 50, true},
		{at(10*time.Second, time.Second), at(20*time.Second, time.Second), 0, true},
		{at(10*time.Second, 9*time.Second), at(20*time.Second, time.Second), 0, true}, // a process with its time is gone
		{at(10*time.Second, 0), at(20*time.Second, time.Hour), 100, true},
		{Reading{}, at(20*time.Second, time.Second), 0, false},
		{at(20*time.Second, 0), at(10*time.Second, 0), 0, false}, // the node was restarted
		{at(10*time.Second, -1), at(20*time.Second, time.Second), 0, false},
	} {
		if got, known := tt.second.Percent(tt.first); got != tt.want || known != tt.known {
			t.Errorf("%+v after %+v: %v, %v", tt.second, tt.first, got, known)
		}
	}
}

func TestCountCPUs(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0-3": 4, "0-3,8,10-11": 7, "#16": 16, "": 0, "a-b": 0, "3-1": 0, "#x": 0} {
		if got := countCPUs(list); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
}

// node is a folder with the files that the program reads.
type node struct {
	t   *testing.T
	dir string
}

func newNode(t *testing.T) node {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the program is for nodes with Linux")
	}
	return node{t, t.TempDir()}
}

func (n node) write(path, text string) {
	n.t.Helper()
	path = filepath.Join(n.dir, path)
	must.Do(n.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(n.t, os.WriteFile(path, []byte(text), 0o755))
}

// measure runs the program once as a node runs it that has these files.
func (n node) measure(job string, env ...string) Reading {
	n.t.Helper()
	input := "job='" + job + "'\n" + strings.NewReplacer("/sys/fs/cgroup", n.dir, "/proc/self/cgroup", n.dir+"/self").Replace(program)
	n.write("program", input)
	cmd := exec.CommandContext(n.t.Context(), "sh", n.dir+"/program")
	cmd.Env = append([]string{"PATH=" + n.dir + "/bin:/usr/bin:/bin", "HOME=" + n.dir}, env...)
	cmd.Stdin = strings.NewReader("\n")
	var out bytes.Buffer
	cmd.Stdout = &out
	must.Do(n.t, cmd.Run())
	text, end := strings.CutSuffix(out.String(), endLine+"\n")
	r, err := parse(text)
	if err != nil || !end {
		n.t.Fatalf("%v\n%s", err, out.String())
	}
	r.Clock = 0
	return r
}

func TestProgramCgroups(t *testing.T) {
	t.Run("cgroup 2 of Slurm", func(t *testing.T) {
		n := newNode(t)
		n.write("self", "0::/system.slice/slurmstepd.scope/job_123/step_4/user/task_0\n")
		const job = "system.slice/slurmstepd.scope/job_123/"
		n.write(job+"cpu.stat", "usage_usec 2500000\nuser_usec 2000000\n")
		n.write(job+"memory.current", "5000000\n")
		n.write(job+"memory.stat", "anon 1\ninactive_file 1000000\n")
		n.write(job+"memory.max", "8000000\n")
		n.write(job+"cpuset.cpus.effective", "2-3\n")
		want := Reading{CPU: 2500 * time.Millisecond, CPUs: 2, Memory: 4000000, MemoryLimit: 8000000}
		if got := n.measure("123", "SLURM_JOB_ID=123"); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
	t.Run("cgroup 1 of Slurm", func(t *testing.T) {
		n := newNode(t)
		n.write("self", "9:cpuset:/slurm/uid_1/job_123/step_0\n4:memory:/slurm/uid_1/job_123/step_0\n2:cpu,cpuacct:/slurm/uid_1/job_123/step_0\n0::/\n")
		n.write("cpuacct/slurm/uid_1/job_123/cpuacct.usage", "2500000123\n")
		n.write("memory/slurm/uid_1/job_123/memory.usage_in_bytes", "5000000\n")
		n.write("memory/slurm/uid_1/job_123/memory.stat", "total_inactive_file 1000000\n")
		n.write("memory/slurm/uid_1/job_123/memory.limit_in_bytes", "8000000\n")
		n.write("cpuset/slurm/uid_1/job_123/cpuset.cpus", "0-1,4\n")
		want := Reading{CPU: 2500 * time.Millisecond, CPUs: 3, Memory: 4000000, MemoryLimit: 8000000}
		if got := n.measure("123"); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
	t.Run("cgroup 2 without limits", func(t *testing.T) {
		n := newNode(t)
		n.write("self", "0::/system.slice/slurmstepd.scope/job_123/step_4\n")
		const job = "system.slice/slurmstepd.scope/job_123/"
		n.write(job+"cpu.stat", "usage_usec 2500000\n")
		n.write(job+"memory.current", "5000000\n")
		n.write(job+"memory.max", "max\n")
		n.write(job+"cpuset.cpus.effective", "0-127\n")
		for _, tt := range []struct {
			env   []string
			cpus  int
			limit int64 // in MiB
		}{
			{[]string{"SLURM_JOB_CPUS_PER_NODE=4", "SLURM_MEM_PER_NODE=64"}, 4, 64},
			{[]string{"SLURM_JOB_CPUS_PER_NODE=4(x2)", "SLURM_MEM_PER_CPU=8"}, 4, 32},
			{[]string{"SLURM_JOB_CPUS_PER_NODE=4,8", "SLURM_MEM_PER_NODE=64"}, 128, 64},
			{[]string{"SLURM_JOB_CPUS_PER_NODE=256", "SLURM_MEM_PER_NODE=64"}, 128, 64},
			{[]string{"SLURM_MEM_PER_NODE=64"}, 128, 64},
		} {
			want := Reading{CPU: 2500 * time.Millisecond, CPUs: tt.cpus, Memory: 5000000, MemoryLimit: tt.limit << 20}
			if got := n.measure("123", append(tt.env, "SLURM_JOB_ID=123")...); !reflect.DeepEqual(got, want) {
				t.Errorf("%q:\ngot  %+v\nwant %+v", tt.env, got, want)
			}
		}
	})
	t.Run("cgroup 1 without limits", func(t *testing.T) {
		n := newNode(t)
		n.write("self", "4:memory:/slurm/uid_1/job_123/step_0\n2:cpu,cpuacct:/slurm/uid_1/job_123/step_0\n0::/\n")
		n.write("cpuacct/slurm/uid_1/job_123/cpuacct.usage", "2500000123\n")
		n.write("memory/slurm/uid_1/job_123/memory.usage_in_bytes", "5000000\n")
		n.write("memory/slurm/uid_1/job_123/memory.limit_in_bytes", "9223372036854771712\n")
		want := Reading{CPU: 2500 * time.Millisecond, CPUs: 6, Memory: 5000000, MemoryLimit: 64 << 20}
		if got := n.measure("123", "SLURM_CPUS_ON_NODE=6", "SLURM_MEM_PER_NODE=64"); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
	t.Run("none: the processes of the job", func(t *testing.T) {
		n := newNode(t)
		n.write("self", "0::/\n")
		cmd := exec.CommandContext(t.Context(), "sleep", "60")
		cmd.Env = []string{"JOB_ID=77.x"}
		must.Do(t, cmd.Start())
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		got := n.measure("77.x", "NSLOTS=3")
		if got.Memory == 0 || got.CPU < 0 || got.CPUs != 3 || got.MemoryLimit == 0 {
			t.Errorf("got %+v", got)
		}
	})
}

// TestProgramGPUs has stand-ins for the tools, which print what the
// real ones do.
func TestProgramGPUs(t *testing.T) {
	n := newNode(t)
	n.write("self", "0::/job_9\n")
	n.write("job_9/cpu.stat", "usage_usec 1\n")
	n.write("job_9/memory.current", "1\n")
	n.write("bin/nvidia-smi", `#!/bin/sh
case "$*" in
*--query-gpu=name,utilization.gpu,memory.used,memory.total*--format=csv,noheader,nounits*) ;;
*) echo "Field is not a valid field to query"; exit 2 ;;
esac
case "$1 $2" in
"-i 1") echo "NVIDIA A100, 35, 1024, 40960" ;;
"-i MIG-x") echo "No devices were found"; exit 6 ;;
*) echo "NVIDIA A100, 0, 1, 40960"; echo "NVIDIA A100, 35, 1024, 40960" ;;
esac
`)
	for _, tt := range []struct {
		env  []string
		want int
	}{
		{[]string{"SLURM_JOB_ID=9", "CUDA_VISIBLE_DEVICES=1"}, 1},
		{[]string{"SLURM_JOB_ID=9", "CUDA_VISIBLE_DEVICES=MIG-x"}, 2},
		{[]string{"SLURM_JOB_ID=9"}, 0}, // it has none, those are of others
		{[]string{"SLURM_JOB_ID=9", "SLURM_JOB_GPUS=0,1", "CUDA_VISIBLE_DEVICES=NoDevFiles"}, 0},
		{nil, 2}, // no scheduler
	} {
		if got := n.measure("9", tt.env...).GPUs; len(got) != tt.want || tt.want == 1 && *got[0].Percent != 35 {
			t.Errorf("%q: %+v", tt.env, got)
		}
	}
}

// TestProgramEnds sends it as the agent does.
func TestProgramEnds(t *testing.T) {
	newNode(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "JOB_ID=it's 5"}
	cmd.Stdin = strings.NewReader(input("it's 5") + "\n\n")
	out, err := cmd.Output()
	if err != nil || strings.Count(string(out), "\n"+endLine+"\n") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}

// silentNode opens a channel, and then does not respond until its connection is lost.
type silentNode struct {
	gateway.Machine
	lost chan struct{}
}

func (n silentNode) OpenChannel(context.Context, string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	requests := make(chan *ssh.Request)
	close(requests)
	return silentChannel{lost: n.lost}, requests, nil
}

type silentChannel struct {
	ssh.Channel
	lost chan struct{}
}

func (c silentChannel) SendRequest(string, bool, []byte) (bool, error) {
	<-c.lost
	return false, io.EOF
}

func (c silentChannel) Read([]byte) (int, error) {
	<-c.lost
	return 0, io.EOF
}

func (silentChannel) Close() error { return nil }

func TestSamplerSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := silentNode{lost: make(chan struct{})}
		start := time.Now()
		if _, err := startSampler(t.Context(), node, "7"); !errors.Is(err, errSamplerSlow) || time.Since(start) != samplerStart {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := startSampler(ctx, node, "7"); !errors.Is(err, context.Canceled) {
			t.Errorf("without a session that wants it: %v", err)
		}
		close(node.lost) // all that has waited for it ends
	})
}
