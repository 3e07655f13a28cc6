package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// TestChoices: choices become the scheduler's options.
func TestChoices(t *testing.T) {
	const torque, twoKinds = "#PBS -l nodes=1:ppn=4\n", "#PBS -l select=1:ncpus=2+2:ncpus=4\n"
	for name, tt := range map[string]struct {
		scheduler string
		script    string
		args      []string
		choices   map[string]string
		want      string // the arguments
		problem   string
	}{
		"slurm": {
			slurmName, "#SBATCH --time=1:00\n",
			[]string{"--exclusive"},
			map[string]string{"hours": "8", "cpus": "4", "memory": "16G", "gpus": "2", "nodes": "1", "account": "a", "partition": "p", "qos": "q"},
			"--exclusive --account=a --cpus-per-task=4 --gres=gpu:2 --time=08:00:00 --mem=16G --nodes=1 --partition=p --qos=q", "",
		},
		"seconds are not lost":        {slurmName, "", nil, map[string]string{"hours": "0.001"}, "--time=00:01:00", ""},
		"project and queue":           {slurmName, "", nil, map[string]string{"project": "a", "queue": "p"}, "--account=a --partition=p", ""},
		"the type of GPU stays":       {slurmName, "#SBATCH --gres=gpu:a100:1\n", nil, map[string]string{"gpus": "2"}, "--gres=gpu:a100:2", ""},
		"a type like 2080ti stays":    {slurmName, "#SBATCH --gres=gpu:2080ti:1\n", nil, map[string]string{"gpus": "2"}, "--gres=gpu:2080ti:2", ""},
		"a type without a number":     {slurmName, "#SBATCH --gres=gpu:a100\n", nil, map[string]string{"gpus": "2"}, "--gres=gpu:a100:2", ""},
		"neither type nor number":     {slurmName, "#SBATCH --gres=gpu\n", nil, map[string]string{"gpus": "2"}, "--gres=gpu:2", ""},
		"the option for GPUs stays":   {slurmName, "#SBATCH -G v100:1\n", nil, map[string]string{"gpus": "4"}, "--gpus=v100:4", ""},
		"GPUs per node":               {slurmName, "#SBATCH --gpus-per-node 1\n", nil, map[string]string{"gpus": "4"}, "--gpus-per-node=4", ""},
		"arguments before the script": {slurmName, "#SBATCH --gpus=1\n", []string{"--gpus=a100:1"}, map[string]string{"gpus": "2"}, "--gpus=a100:1 --gpus=a100:2", ""},
		"two options for GPUs":        {slurmName, "#SBATCH --gpus=1\n#SBATCH --gres=gpu:1\n", nil, map[string]string{"gpus": "2"}, "", "both --gpus and --gres"},
		"two kinds of GPUs":           {slurmName, "#SBATCH --gres=gpu:a100:1,gpu:v100:1\n", nil, map[string]string{"gpus": "2"}, "", "several kinds"},
		"other gres":                  {slurmName, "#SBATCH --gres=nvme:1\n", nil, map[string]string{"gpus": "2"}, "--gres=nvme:1,gpu:2", ""},
		"two words for one option":    {slurmName, "", nil, map[string]string{"partition": "p", "queue": "q"}, "", "partition=p is the same option"},
		"after the first command":     {slurmName, "true\n#SBATCH --gres=gpu:a100:1\n", nil, map[string]string{"gpus": "2"}, "--gres=gpu:2", ""},

		"pbs": {
			pbsName, "#PBS -l select=1:ncpus=2:ngpus=1:mem=16gb\n#PBS -l walltime=1:00:00\n", nil,
			map[string]string{"hours": "2", "project": "p", "queue": "q", "account": "a"},
			"-A a -l walltime=02:00:00 -P p -q q", "",
		},
		"a select": {
			pbsName, "#PBS -l select=1:ncpus=2:ngpus=1:mem=16gb\n", nil,
			map[string]string{"gpus": "2", "cpus": "8", "memory": "32gb", "nodes": "2"},
			"-l select=2:ncpus=8:ngpus=2:mem=32gb", "",
		},
		"a select in the arguments": {
			pbsName, "#PBS -l select=1:ncpus=2\n",
			[]string{"-l", "select=1:ncpus=4,walltime=1:00:00", "-V"},
			map[string]string{"cpus": "8", "hours": "3"},
			"-V -l select=1:ncpus=8 -l walltime=03:00:00", "",
		},
		"an attached value":           {pbsName, "", []string{"-lwalltime=1:00:00", "-qold"}, map[string]string{"hours": "3", "queue": "new"}, "-l walltime=03:00:00 -q new", ""},
		"the whole job":               {pbsName, "#PBS -l ncpus=1\n", nil, map[string]string{"cpus": "8", "gpus": "1"}, "-l ncpus=8 -l ngpus=1", ""},
		"a select without it":         {pbsName, "#PBS -l select=1:ncpus=2\n", nil, map[string]string{"gpus": "1"}, "", "select=1:ncpus=2 has no ngpus"},
		"chunks of several kinds":     {pbsName, twoKinds, nil, map[string]string{"cpus": "1"}, "", "several kinds of chunks"},
		"Torque":                      {pbsName, torque, nil, map[string]string{"cpus": "1"}, "", "nodes=1:ppn=4"},
		"nodes without a select":      {pbsName, "", nil, map[string]string{"nodes": "2"}, "", "no select"},
		"no word":                     {pbsName, "", nil, map[string]string{"qos": "high"}, "", "pbs has no word for it"},
		"grid engine":                 {gridEngineName, "#$ -l h_rt=1:0:0\n", []string{"-l", "h_rt=2:0:0,gpu=1"}, map[string]string{"hours": "4", "gpus": "2", "queue": "q"}, "-l gpu=2 -l h_rt=04:00:00 -q q", ""},
		"slots":                       {gridEngineName, "#$ -pe smp 2\n", nil, map[string]string{"cpus": "8"}, "-pe smp 8", ""},
		"slots in the arguments":      {gridEngineName, "", []string{"-pe", "mpi", "2", "-V"}, map[string]string{"cpus": "8"}, "-V -pe mpi 8", ""},
		"no parallel environment":     {gridEngineName, "", nil, map[string]string{"cpus": "8"}, "", "no parallel environment"},
		"memory, whatever its name":   {gridEngineName, "#$ -l mem_free=2G\n", nil, map[string]string{"memory": "8G"}, "-l mem_free=8G", ""},
		"memory without a name":       {gridEngineName, "", nil, map[string]string{"memory": "8G"}, "", "its own name"},
		"a host without a scheduler":  {noScheduler, "", nil, map[string]string{"hours": "8"}, "", "none has no word for it"},
		"nothing chosen":              {pbsName, "", []string{"-V"}, nil, "-V", ""},
		"nothing that anything knows": {slurmName, "", nil, map[string]string{"colour": "red"}, "", "slurm has no word"},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWatcher(nil, Options{Scheduler: tt.scheduler})
			s, err := w.Drafts().WithChoices(t.Context(), Submission{Content: []byte("#!/bin/sh\n" + tt.script), Args: tt.args}, tt.choices)
			if tt.problem != "" {
				e, ok := errors.AsType[*api.Error](err)
				if !ok || e.Code != api.CodeUsage || !strings.Contains(e.Message, tt.problem) || e.Hint == "" {
					t.Fatalf("%v, want %q", err, tt.problem)
				}
				return
			}
			if got := strings.Join(s.Args, " "); err != nil || got != tt.want {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// TestChoicesInScript: what a script asks for is known by the names of choices.
func TestChoicesInScript(t *testing.T) {
	for _, tt := range []struct {
		scheduler, script string
		args              []string
		want              string
	}{
		{slurmName, "#SBATCH -t 1:30:00 -c 4 --mem=16G\n#SBATCH --gres=gpu:a100:2 -A def -p gpu\n", []string{"--account=other"}, "map[account:other cpus:4 gpus:2 hours:1.5 memory:16G partition:gpu project:other queue:gpu]"},
		{slurmName, "#SBATCH --gres=gpu:1,nvme:1\n", nil, "map[]"},
		{pbsName, "#PBS -l select=2:ncpus=4:mem=8gb -l walltime=0:20:00 -q short\n", nil, "map[cpus:4 hours:0.33 memory:8gb nodes:2 partition:short queue:short]"},
		{gridEngineName, "#$ -pe smp 4 -l h_rt=2:0:0,h_vmem=2G\n", []string{"-P", "bio"}, "map[cpus:4 hours:2 memory:2G project:bio]"},
		{noScheduler, "true\n", nil, "map[]"},
	} {
		w := NewWatcher(nil, Options{Scheduler: tt.scheduler})
		got, err := w.Drafts().ChosenIn(t.Context(), Submission{Content: []byte("#!/bin/sh\n" + tt.script), Args: tt.args})
		if err != nil || fmt.Sprint(got) != tt.want {
			t.Errorf("%s, %q: %v, %v; want %s", tt.scheduler, tt.script, got, err, tt.want)
		}
	}
}

// TestChoicesListed: every choice of a scheduler is listed.
func TestChoicesListed(t *testing.T) {
	for _, k := range schedulerKinds {
		if names := ChoiceNames(k.Name); len(names) != len(k.Options) || !slices.IsSorted(names) {
			t.Errorf("%s: %v", k.Name, names)
		}
	}
	if ChoiceNames("unknown") != nil {
		t.Error("an unknown scheduler has choices")
	}
	for scheduler, want := range map[string]string{
		slurmName:      "account cpus gpus hours memory nodes partition qos",
		pbsName:        "account cpus gpus hours memory nodes project queue",
		gridEngineName: "account cpus gpus hours memory project queue",
		noScheduler:    "",
	} {
		if got := strings.Join(ListedChoices(scheduler), " "); got != want {
			t.Errorf("%s is offered %s, want %s", scheduler, got, want)
		}
	}
}

// TestDraftNamed: a second job has its own name.
func TestDraftNamed(t *testing.T) {
	for scheduler, want := range map[string]string{slurmName: "-V --job-name=nb2", pbsName: "-V -N nb2", gridEngineName: "-V -N nb2", noScheduler: "-V"} {
		w := NewWatcher(nil, Options{Scheduler: scheduler})
		s, err := w.Drafts().Named(t.Context(), Submission{Script: "~/nb.sh", Args: []string{"-V"}}, "nb2")
		if got := strings.Join(s.Args, " "); err != nil || got != want || s.base() != "nb2.sh" {
			t.Errorf("%s: %q as %q, %v", scheduler, got, s.base(), err)
		}
	}
}

// TestSharedLogOfSlurm: a log that all jobs of a script share is found.
func TestSharedLogOfSlurm(t *testing.T) {
	for script, want := range map[string]string{
		"":                                      "",
		"#SBATCH -o nb.log\n":                   "nb.log",
		"#SBATCH --output=~/logs/%u-%N.log\n":   "~/logs/%u-%N.log",
		"#SBATCH --output slurm-%j.out\n":       "",
		"#SBATCH --output=%x.%4A.log\n":         "",
		"#SBATCH -o /dev/null\n":                "",
		"#SBATCH -o nb.log\n#SBATCH -o nb.%j\n": "",
	} {
		w := NewWatcher(nil, Options{Scheduler: slurmName})
		got, hint, err := w.Drafts().SharedLog(t.Context(), Submission{Content: []byte("#!/bin/sh\n" + script)})
		if err != nil || got != want || want != "" && !strings.Contains(hint, "%j") {
			t.Errorf("%q: %q, %q, %v; want %q", script, got, hint, err, want)
		}
	}
}

// TestSharedLogOfQsub: a log of qsub is shared unless it is a folder or has the job in its name.
func TestSharedLogOfQsub(t *testing.T) {
	m := jobtest.NewMachine(t)
	if err := os.Mkdir(m.File("logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for scheduler, scripts := range map[string]map[string]string{
		pbsName: {
			"":                              "",
			"#PBS -o nb.log\n":              "nb.log",
			"#PBS -o head:/h/nb.log\n":      "/h/nb.log",
			"#PBS -o logs\n":                "",
			"#PBS -o logs/\n":               "",
			"#PBS -o logs/$PBS_JOBID.out\n": "",
			"#PBS -o /dev/null\n":           "",
		},
		gridEngineName: {
			"":                               "",
			"#$ -o nb.log -j y\n":            "nb.log",
			"#$ -o $HOME/nb.log\n":           "$HOME/nb.log",
			"#$ -o $HOME/logs\n":             "",
			"#$ -o ~/logs\n":                 "",
			"#$ -o :logs/it's.log\n":         "logs/its.log",
			"#$ -o logs/$JOB_NAME.$JOB_ID\n": "",
			"#$ -o $HOME/$(touch y)\n":       "$HOME/$(touch y)",
		},
	} {
		for script, want := range scripts {
			w := watcher(m, scheduler)
			got, hint, err := w.Drafts().SharedLog(t.Context(), Submission{Content: []byte("#!/bin/sh\n" + script)})
			if err != nil || got != want || want != "" && !strings.Contains(hint, "-o") {
				t.Errorf("%s, %q: %q, %q, %v; want %q", scheduler, script, got, hint, err, want)
			}
		}
	}
	if _, err := os.Stat(m.File("y")); err == nil {
		t.Error("a path was run as a command")
	}
}

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
		got, err := w.Drafts().RequestOf(t.Context(), Submission{Args: tt.args, Content: []byte("#!/bin/sh\n" + tt.script)})
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
		got, err := w.Drafts().SizeOf(t.Context(), Submission{Args: tt.args, Content: []byte("#!/bin/sh\n" + tt.script)})
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tt.want)
		}
	}
}

func TestSizeOfAnotherSchedulersLines(t *testing.T) {
	for _, line := range []string{"#PBS -l nodes=100", "#BSUB -n 6400", "#PBS -l walltime=100:00:00"} {
		got, err := NewWatcher(nil, Options{Scheduler: slurmName}).Drafts().SizeOf(t.Context(), Submission{Content: []byte("#!/bin/sh\n#SBATCH -t 60\n" + line + "\n")})
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

// TestDirectivesHas: a required option is found in whatever form it has.
func TestDirectivesHas(t *testing.T) {
	for _, c := range []struct {
		scheduler, required, script string
		args                        []string
		has                         bool
	}{
		{slurmName, "--account=X", "#!/bin/sh\n#SBATCH --account=def-a\n", nil, true},
		{slurmName, "--account=X", "#!/bin/sh\n#SBATCH --account def-a\n", nil, true},
		{slurmName, "--account=X", "#!/bin/sh\n#SBATCH -A def-a --time=1\n", nil, true},
		{slurmName, "--account=X", "#!/bin/sh\n\n# a comment\n#SBATCH --time=1 -Adef-a\n", nil, true},
		{slurmName, "--account=X", "#!/bin/sh\n#SBATCH --acc=def-a\n", nil, true}, // getopt takes it
		{slurmName, "-A X", "#SBATCH --account=def-a\n", nil, true},
		{slurmName, "-G N", "#SBATCH --gpus=1\n", nil, true},
		{slurmName, "--constraint=gpu", "#SBATCH -C \"gpu&hbm80g\"\n", nil, true},
		{slurmName, "--clusters=wice", "", []string{"-M", "wice"}, true},
		{slurmName, "--clusters=wice", "", []string{"--clusters=wice"}, true},
		{slurmName, "--exclusive", "#SBATCH --exclusive\n", nil, true},
		{slurmName, "--account=X", "#!/bin/sh\nmodule load x\n#SBATCH --account=def-a\n", nil, false},
		{slurmName, "--account=X", "#!/bin/sh\n##SBATCH --account=def-a\n", nil, false},
		{slurmName, "--account=X", "#!/bin/sh\n#PBS -A x\n#SBATCH --time=1\n", nil, false},
		{slurmName, "--account=X", "#!/bin/sh\n#SBATCH --time=1\n", []string{"--partition=a"}, false},
		{pbsName, "-l filesystems=home:eagle", "#!/bin/sh\n#PBS -l filesystems=home\n", nil, true},
		{pbsName, "-l filesystems=home:eagle", "#!/bin/sh\n#PBS -l walltime=1:00:00,filesystems=home\n", nil, true},
		{pbsName, "-l filesystems=home:eagle", "#!/bin/sh\n#PBS -lselect=1\n#PBS -lfilesystems=home\n", nil, true},
		{pbsName, "-l storage=gdata/x", "", []string{"-l", "storage=gdata/ab12"}, true},
		{pbsName, "-P GROUP", "#PBS -P ab12\n", nil, true},
		{pbsName, "-l filesystems=home:eagle", "#!/bin/sh\n#PBS -l walltime=1:00:00\n", nil, false},
		{pbsName, "-P GROUP", "#PBS -p 10\n", nil, false},
		{gridEngineName, "-P PROJECT", "#!/bin/sh\n#$ -P ab12\n", nil, true},
		{gridEngineName, "-P PROJECT", "#!/bin/sh\n#$ -N x -cwd -P ab12\n", nil, true},
		{gridEngineName, "-P PROJECT", "#!/bin/sh\nmodule load x\n#$ -P ab12\n", nil, true},
		{gridEngineName, "-P PROJECT", "", []string{"-P", "ab12"}, true},
		{gridEngineName, "-pe smp 4", "#$ -pe mpi 8\n", nil, true},
		{gridEngineName, "-l h_rt=1:00:00", "#$ -l gpu=1,h_rt=2:00:00\n", nil, true},
		{gridEngineName, "-l h_rt=1:00:00", "#$ -l gpu=1\n", nil, false},
		{gridEngineName, "-p 0", "#$ -pe mpi 8\n", nil, false},
		{gridEngineName, "-P PROJECT", "#!/bin/sh\n#SBATCH -P x\n#$ -p 10\n", nil, false},
	} {
		d := &kindNamed(c.scheduler).Directives
		list := slices.Concat(d.Options(c.args), d.Options(d.Words(c.script)))
		if got := d.Has(list, d.Required(c.required)); got != c.has {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestMissingOptions: a submission is checked wherever its options are.
func TestMissingOptions(t *testing.T) {
	m := jobtest.NewSlurm(t)
	m.Write(t, "with.sh", "#!/bin/sh\r\n#SBATCH -A def-a\r\nexit\r\n")
	m.Write(t, "without.sh", "#!/bin/sh\nexit\n")
	check := func(s Submission, want ...string) {
		t.Helper()
		s.Tag = "t"
		got, err := slurmWatcher(m).Drafts().MissingOptions(t.Context(), s, []string{"--account=PROJECT"})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: %q, %v", s, got, err)
		}
	}
	check(Submission{Script: "~/with.sh"})
	check(Submission{Script: "with.sh"})
	check(Submission{Script: "~/without.sh"}, "--account=PROJECT")
	check(Submission{Script: "~/without.sh", Args: []string{"-A", "x"}})
	check(Submission{Content: []byte("#!/bin/sh\n")}, "--account=PROJECT")
	check(Submission{Content: []byte("#!/bin/sh\n#SBATCH --account=x\n")})
	check(Submission{Script: "~/nothing.sh"}) // Submit says what is wrong
	m.Write(t, ".profile", m.PathLine()+"export SBATCH_ACCOUNT=def-a\n")
	check(Submission{Script: "~/without.sh"})
}

// TestMissingOptionsOfGridEngine: a submission to Grid Engine is checked unless a file of the user may have the option.
func TestMissingOptionsOfGridEngine(t *testing.T) {
	m, w := newGridEngine(t)
	if err := os.Mkdir(m.File("work"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.Write(t, "work/job.sh", "#!/bin/sh\nexit\n")
	check := func(want ...string) {
		t.Helper()
		s := Submission{Tag: "t", Script: "~/work/job.sh", Workdir: "~/work"}
		if got, err := w.Drafts().MissingOptions(t.Context(), s, []string{"-P PROJECT"}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	check("-P PROJECT")
	for _, file := range []string{".sge_request", "work/.sge_request"} {
		m.Write(t, file, "-P ab12\n")
		check()
		if err := os.Remove(m.File(file)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMissingOptionsWithoutCommand: a script that has all costs the host no command.
func TestMissingOptionsWithoutCommand(t *testing.T) {
	m := jobtest.NewSlurm(t)
	w := slurmWatcher(m)
	got, err := w.Drafts().MissingOptions(t.Context(), Submission{Tag: "t", Content: []byte("#SBATCH -A x\n")}, []string{"--account=X"})
	if err != nil || got != nil || len(m.Scripts) > 0 {
		t.Errorf("%q, %v; ran %q", got, err, m.Scripts)
	}
}

// recorder is a machine that records what it printed.
type recorder struct {
	*jobtest.Machine
	out string
}

func (r *recorder) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	res, err := r.Machine.Run(ctx, command, stdin)
	r.out += string(res.Stdout)
	return res, err
}

// TestMissingOptionsVariables: the names of variables are read and not their values.
func TestMissingOptionsVariables(t *testing.T) {
	m := jobtest.NewSlurm(t)
	m.Write(t, ".profile", m.PathLine()+"export MY_TOKEN=topsecret\n")
	r := &recorder{Machine: m}
	if _, err := slurmWatcher(r).Drafts().MissingOptions(t.Context(), Submission{Tag: "t", Content: []byte("#!/bin/sh\n")}, []string{"--account=X"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.out, "MY_TOKEN") || strings.Contains(r.out, "topsecret") {
		t.Errorf("the host said %q", r.out)
	}
}

func TestDrafts(t *testing.T) {
	t.Run("a script is read once for all that is asked about it", func(t *testing.T) {
		m := jobtest.NewSlurm(t)
		m.Write(t, "nb.sh", "#!/bin/sh\n#SBATCH -t 60\n")
		drafts := slurmWatcher(m).Drafts()
		for _, hours := range []string{"1", "2", "3", "4"} {
			s, err := drafts.WithChoices(t.Context(), Submission{Tag: "t", Script: "~/nb.sh"}, map[string]string{"hours": hours})
			if err == nil {
				_, err = drafts.ChosenIn(t.Context(), s)
			}
			if err == nil {
				_, _, err = drafts.SharedLog(t.Context(), s)
			}
			if err == nil {
				_, err = drafts.MissingOptions(t.Context(), s, []string{"--account=X"})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		reads := 0
		for _, script := range m.Scripts {
			reads += strings.Count(script, "nb.sh")
		}
		if reads != 1 {
			t.Errorf("it was read %d times: %q", reads, m.Scripts)
		}
	})
}
