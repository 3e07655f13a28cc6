package jobwatch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/jobtest"
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
