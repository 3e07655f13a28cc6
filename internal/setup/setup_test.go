package setup

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/term"
)

// askedAt are the questions about a host of that scheduler where this was found, with what the
// user types.
func askedAt(t *testing.T, scheduler string, found api.Look, typed string) *jobQuestions {
	t.Helper()
	sites, err := configs.LoadSites("")
	if err != nil {
		t.Fatal(err)
	}
	site, err := sites.ForHost(configs.Host{}, scheduler)
	if err != nil {
		t.Fatal(err)
	}
	terminal := &term.Terminal{In: strings.NewReader(typed), Out: io.Discard, Err: io.Discard, Interactive: true}
	p := &plan{session: "jupyter", job: configs.Job{App: "jupyter", Name: "jupyter", Site: site, Answers: map[string]string{}}}
	return &jobQuestions{asker: &asker{Terminal: terminal, job: &p.job, found: found}, plan: p, looked: true}
}

// clusterFound is a cluster with two accounts and four partitions.
func clusterFound() api.Look {
	return api.Look{
		Scheduler: "slurm", Home: "/home/ann",
		Accounts: []api.Account{{Name: "proj", Default: true, Source: "sacctmgr"}, {Name: "phys", Source: "sacctmgr"}, {Name: "proj", Partition: "x", Source: "sacctmgr"}},
		Partitions: []api.Partition{
			{Name: "batch", Default: true, Source: "scontrol", PartitionUsage: api.PartitionUsage{CPUs: 64, FreeCPUs: 8, NodeCPUs: 64, NodeMB: 256000}},
			{Name: "gpu", GPUOnly: true, Accounts: []string{"phys"}, LimitSeconds: 5400, QoS: "gpuq", PartitionUsage: api.PartitionUsage{CPUs: 1, NodeCPUs: 1, NodeMB: 6000}},
			{Name: "teach", Accounts: []string{"proj"}},
			{Name: "odd name", Accounts: []string{"proj"}},
		},
		Environments: []api.Environment{{Kind: api.EnvironmentVenv, Path: "/home/ann/envs/lab", App: "jupyterlab", Version: "4.2.5"}},
	}
}

func TestTheAnswersOfALookFitEachOther(t *testing.T) {
	for _, c := range []struct {
		typed string
		with  map[string]string
		args  []string
	}{
		{"\n\n", map[string]string{"account": "proj", "partition": "batch", "venv": "~/envs/lab"}, nil},
		{"phys\ngpu\n", map[string]string{"account": "phys", "partition": "gpu", "venv": "~/envs/lab", "hours": "1.5", "gpus": "1", "cpus": "1", "memory": "3000M"}, []string{"--qos=gpuq"}},
		{"2\ngpus=2\nhours=1\n2\n", map[string]string{"account": "phys", "partition": "gpu", "venv": "~/envs/lab", "hours": "1", "gpus": "2", "cpus": "1", "memory": "3000M"}, []string{"--qos=gpuq"}},
		{"phys\npartition=gpu\nhours=99\nhours=1\ncpus=64\n2\n", map[string]string{"account": "phys", "partition": "gpu", "venv": "~/envs/lab", "hours": "1", "gpus": "1", "cpus": "1", "memory": "3000M"}, []string{"--qos=gpuq"}},
		{"a b\n9\nother\n", map[string]string{"account": "other", "partition": "batch", "venv": "~/envs/lab"}, nil},
		{"hour=8\nphys\n\n", map[string]string{"account": "phys", "partition": "batch", "venv": "~/envs/lab"}, nil}, // a misspelled setting is no account
		{"\nhours=x\n\tunlisted\npartition=unlisted\nteach,unlisted\nteach,batch\n", map[string]string{"account": "proj", "partition": "teach,batch", "venv": "~/envs/lab"}, nil},
	} {
		j := askedAt(t, "slurm", clusterFound(), c.typed)
		if err := j.askAll(t.Context()); err != nil || !maps.Equal(j.plan.job.Answers, c.with) || !slices.Equal(j.plan.args, c.args) {
			t.Errorf("%q: %v\n%v %v, want\n%v %v", c.typed, err, j.plan.job.Answers, j.plan.args, c.with, c.args)
		}
	}
}

func TestOnlyPartitionsThatAcceptTheAccountAreOffered(t *testing.T) {
	j := askedAt(t, "slurm", clusterFound(), "")
	partition, _ := j.plan.job.Question("partition")
	for account, want := range map[string][]string{"proj": {"batch", "teach"}, "phys": {"batch", "gpu"}, "": {"batch", "gpu", "teach"}} {
		var got []string
		j.plan.job.Answers = map[string]string{"account": account}
		for _, o := range j.offers(partition) {
			got = append(got, o.value)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", account, got, want)
		}
	}
}
