package jobwatch

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

// TestRequestOf: what a job asks for is read from its options.
func TestRequestOf(t *testing.T) {
	for name, tt := range map[string]struct {
		scheduler, script string
		args              []string
		want              Request
	}{
		"slurm": {
			slurmName, "#SBATCH -J nb\n#SBATCH --time=1-02:30\n#SBATCH -c 4\n#SBATCH --gres=gpu:a100:2\n", nil,
			Request{sched.Demand{Time: 26*time.Hour + 30*time.Minute, Nodes: 1, CPUs: 4, GPUs: 2}, "nb", nil},
		},
		"slurm's defaults": {slurmName, "", nil, Request{sched.Demand{Nodes: 1, CPUs: 1}, "", nil}},
		"minutes":          {slurmName, "#SBATCH -t 90\n", nil, Request{sched.Demand{Time: 90 * time.Minute, Nodes: 1, CPUs: 1}, "", nil}},
		"arguments win":    {slurmName, "#SBATCH -t 90\n", []string{"--time=2:00:00"}, Request{sched.Demand{Time: 2 * time.Hour, Nodes: 1, CPUs: 1}, "", nil}},
		"several nodes": {
			slurmName, "#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n#SBATCH -c 8\n#SBATCH --exclusive\n", nil,
			Request{sched.Demand{Nodes: 2, CPUs: 64, GPUs: 8, Exclusive: true}, "", nil},
		},
		"GPUs of tasks":                   {slurmName, "#SBATCH -n 3\n#SBATCH --gpus-per-task=2\n", nil, Request{sched.Demand{Nodes: 1, CPUs: 3, GPUs: 6}, "", nil}},
		"a type that begins with a digit": {slurmName, "#SBATCH --gres=gpu:2080ti:2\n", nil, Request{sched.Demand{Nodes: 1, CPUs: 1, GPUs: 2}, "", nil}},
		"such a type without a number":    {slurmName, "#SBATCH -N 2 --gres=gpu:2080ti\n", nil, Request{sched.Demand{Nodes: 2, CPUs: 2, GPUs: 2}, "", nil}},
		"a comment":                       {slurmName, "#SBATCH --time=1:00:00 # max --time=24:00:00\n", nil, Request{sched.Demand{Time: time.Hour, Nodes: 1, CPUs: 1}, "", nil}},
		"a quoted #":                      {slurmName, "#SBATCH --comment=\"no #1\" --time=1:00:00\n", nil, Request{sched.Demand{Time: time.Hour, Nodes: 1, CPUs: 1}, "", nil}},
		"a comment of qsub":               {pbsName, "#PBS -l walltime=1:00:00 # -l walltime=9:00:00\n", nil, Request{sched.Demand{Time: time.Hour, Nodes: 1, CPUs: 1}, "", nil}},
		"other gres":                      {slurmName, "#SBATCH --gres=nvme:3,gpu\n", nil, Request{sched.Demand{Nodes: 1, CPUs: 1, GPUs: 1}, "", nil}},
		"pbs": {
			pbsName, "#PBS -N nb\n#PBS -l select=2:ncpus=16:ngpus=1:mem=64gb+1:ncpus=4\n#PBS -l walltime=1:30:00,place=scatter:excl\n", nil,
			Request{sched.Demand{Time: 90 * time.Minute, Nodes: 3, CPUs: 36, GPUs: 2, Exclusive: true}, "nb", nil},
		},
		"pbs as a whole":  {pbsName, "#PBS -l ncpus=12,ngpus=1\n", []string{"-l", "walltime=3600"}, Request{sched.Demand{Time: time.Hour, Nodes: 1, CPUs: 12, GPUs: 1}, "", nil}},
		"grid engine":     {gridEngineName, "#$ -N nb -l h_rt=2:0:0,gpu=1\n#$ -pe smp 4\n", nil, Request{sched.Demand{Time: 2 * time.Hour, CPUs: 4, GPUs: 1}, "nb", nil}},
		"none":            {noScheduler, "", nil, Request{}},
		"its queues":      {slurmName, "#SBATCH -p gpu\n#SBATCH -q debug\n", []string{"-p", "long"}, Request{sched.Demand{Nodes: 1, CPUs: 1}, "", []string{"long", "debug"}}},
		"a queue of qsub": {pbsName, "#PBS -q small\n", nil, Request{sched.Demand{Nodes: 1, CPUs: 1}, "", []string{"small"}}},
	} {
		w := NewWatcher(nil, Options{Scheduler: tt.scheduler})
		got, err := w.Drafts().RequestOf(t.Context(), Submission{Args: tt.args}, "#!/bin/sh\n"+tt.script)
		got.Most, got.ArraySize = 0, 0 // see TestSizeOf
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tt.want)
		}
	}
}

// TestSizeOf: the size of a job is never too small.
func TestSizeOf(t *testing.T) {
	for name, tt := range map[string]struct {
		scheduler, script string
		args              []string
		want              Size
	}{
		"one node":           {slurmName, "#SBATCH -t 2:00:00\n", nil, Size{2 * time.Hour, 1}},
		"a range of nodes":   {slurmName, "#SBATCH -t 60 -N 1-8\n", nil, Size{time.Hour, 8}},
		"GPUs of a digit":    {slurmName, "#SBATCH -t 60 -G 2080ti:3\n", nil, Size{time.Hour, 3}},
		"a comment":          {slurmName, "#SBATCH -t 60 # at most -t 600\n", nil, Size{time.Hour, 1}},
		"an array":           {slurmName, "#SBATCH -t 60 -N 2\n#SBATCH --array=1-100%5\n", nil, Size{time.Hour, 200}},
		"an array in short":  {slurmName, "#SBATCH -t 60\n#SBATCH -a 0,2,4-8:2\n", nil, Size{time.Hour, 5}},
		"tasks":              {slurmName, "#SBATCH -t 60 -n 64\n", nil, Size{time.Hour, 64}},
		"tasks of two nodes": {slurmName, "#SBATCH -t 60 -n 64 -N 2\n", nil, Size{time.Hour, 2}},
		"GPUs":               {slurmName, "#SBATCH -t 60 -G a100:16\n", nil, Size{time.Hour, 16}},
		"named nodes":        {slurmName, "#SBATCH -t 60 -w cn1,cn2\n", nil, Size{time.Hour, 2}},
		"a list of nodes":    {slurmName, "#SBATCH -t 60 -w cn[1-9]\n", nil, Size{time.Hour, 0}},
		"a file of nodes":    {slurmName, "#SBATCH -t 60 -F nodes.txt\n", nil, Size{time.Hour, 0}},
		"ignored lines":      {slurmName, "#SBATCH -t 60 --ignore-pbs\n#PBS -l nodes=100\n", nil, Size{time.Hour, 1}},
		"ignored by hand":    {slurmName, "#SBATCH -t 60\n#BSUB -n 6400\n", []string{"--ignore-pbs"}, Size{time.Hour, 1}},
		"several jobs":       {slurmName, "#SBATCH -t 60\n#SBATCH hetjob\n#SBATCH -N 100\n", nil, Size{}},
		"a shortened option": {slurmName, "#SBATCH -t 60 --arr=1-100\n", nil, Size{}},
		"a hidden limit":     {slurmName, "#SBATCH -t 600\n#SBATCH --comment='x --time=1'\n", nil, Size{10 * time.Hour, 1}},
		"arguments":          {slurmName, "#SBATCH -t 600 -N 8\n", []string{"--time=60", "--nodes=2"}, Size{time.Hour, 2}},
		"too many":           {slurmName, "#SBATCH -t 60 -N 99999 -a 1-999999\n", nil, Size{time.Hour, 0}},
		"no limit":           {slurmName, "#SBATCH -t UNLIMITED\n", nil, Size{0, 1}},
		"one of two limits":  {slurmName, "#SBATCH -t 60\n#SBATCH -t UNLIMITED\n", nil, Size{0, 1}},
		"an endless array":   {slurmName, "#SBATCH -t 60 -a x\n", nil, Size{time.Hour, 0}},
		"pbs":                {pbsName, "#PBS -l select=2:ncpus=16+3:ncpus=4,walltime=1:00:00\n#PBS -J 1-4\n", nil, Size{time.Hour, 20}},
		"torque":             {pbsName, "#PBS -l nodes=4:ppn=8+cn7,walltime=1:00:00\n#PBS -t 0-1\n", nil, Size{time.Hour, 10}},
		"pbs's default":      {pbsName, "#PBS -l ncpus=8,walltime=1:00:00\n", nil, Size{time.Hour, 1}},
		"grid engine":        {gridEngineName, "#$ -l h_rt=1:0:0\n#$ -pe smp 16\n#$ -t 1-3\n", nil, Size{time.Hour, 3}},
		"many slots":         {gridEngineName, "#$ -l h_rt=1:0:0\n#$ -pe mpi 16-32\n", nil, Size{time.Hour, 32}},
		"none":               {noScheduler, "", nil, Size{}},
	} {
		w := NewWatcher(nil, Options{Scheduler: tt.scheduler})
		got, err := w.Drafts().SizeOf(t.Context(), Submission{Args: tt.args}, "#!/bin/sh\n"+tt.script)
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tt.want)
		}
	}
}

func TestSizeOfAnotherSchedulersLines(t *testing.T) {
	for _, line := range []string{"#PBS -l nodes=100", "#BSUB -n 6400", "#PBS -l walltime=100:00:00"} {
		got, err := NewWatcher(nil, Options{Scheduler: slurmName}).Drafts().SizeOf(t.Context(), Submission{}, "#!/bin/sh\n#SBATCH -t 60\n"+line+"\n")
		if !api.HasCode(err, api.CodeSubmit) || !strings.Contains(api.HintOf(err), "--ignore-pbs") {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
}

// TestCommandOf: the command is one that a user could type.
func TestCommandOf(t *testing.T) {
	for want, s := range map[string]Submission{
		"sbatch --time=1:00:00 ~/nb.sh":                    {Script: "~/nb.sh", Args: []string{"--time=1:00:00"}},
		"cd ~/work && sbatch '--comment=it is mine' nb.sh": {Content: []byte("x"), Base: "nb.sh", Args: []string{"--comment=it is mine"}, Workdir: "~/work"},
	} {
		w := NewWatcher(nil, Options{Scheduler: slurmName})
		if got, err := w.Drafts().CommandOf(t.Context(), s); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	w := NewWatcher(nil, Options{Scheduler: noScheduler})
	if got, err := w.Drafts().CommandOf(t.Context(), Submission{Script: "~/nb.sh", Args: []string{"8888"}}); err != nil || got != "~/nb.sh 8888" {
		t.Errorf("%q, %v", got, err)
	}
}
