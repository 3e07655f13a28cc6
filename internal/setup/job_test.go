package setup

import (
	"testing"

	"tunctl/configs"
)

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
	j := askedAt(t, "slurm", clusterFound(), "")
	sites, err := configs.LoadSites("")
	if err != nil {
		t.Fatal(err)
	}
	narval, err := sites.Find("narval")
	if err != nil {
		t.Fatal(err)
	}
	j.plan.job.Site = narval
	list := j.software()
	if len(list) != 2 || list[0].label != "the site's own setup" || list[0].answer != "" || list[1].value != "~/envs/lab" || list[1].answer != "venv" {
		t.Errorf("offered %+v", list)
	}
}
