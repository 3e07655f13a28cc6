package main

import "testing"

func TestWhatIsTypedForTheSoftwareIsTakenByItsForm(t *testing.T) {
	for typed, want := range map[string]software{
		"~/envs/lab":     {answer: "venv"},
		"/scratch/x.sif": {answer: "container"},
		"~/lab.sbatch":   {script: true},
		"jupyter/4.2":    {answer: "modules"},
		"ds":             {answer: "conda"},
	} {
		want.value = typed
		if got := typedSoftware(typed); got != want {
			t.Errorf("%q: %+v, want %+v", typed, got, want)
		}
	}
}

func TestASitesOwnSetupIsOfferedFirst(t *testing.T) {
	i := askedAt(t, "slurm", clusterFound(), "")
	narval, err := i.sites.Find("narval")
	if err != nil {
		t.Fatal(err)
	}
	i.job.Site = narval
	list := i.software()
	if len(list) != 2 || list[0].label != "as usual there" || list[0].answer != "" || list[1].value != "~/envs/lab" || list[1].answer != "venv" {
		t.Errorf("offered %+v", list)
	}
}
