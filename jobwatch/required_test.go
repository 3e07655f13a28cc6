package jobwatch

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
)

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
