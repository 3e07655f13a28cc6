package setup

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/term"
)

// software is a way to start the session's server: an offer with what it sets.
type software struct {
	offer
	answer string // the name of the question that the value answers; "" for the PATH
	script bool   // the value is a job script
	job    string // the name of the job to use
}

// askSoftware asks what to start: an environment with Jupyter, a job script of the user's,
// or a job that serves already.
func (j *jobQuestions) askSoftware(ctx context.Context) error {
	given := slices.ContainsFunc([]string{"modules", "conda", "venv", "container"}, func(name string) bool { return j.plan.job.Answers[name] != "" })
	if j.plan.job.App != "jupyter" || given {
		return nil
	}
	all := slices.DeleteFunc(j.software(), func(s software) bool {
		_, ok := setting(&j.plan.job, s.answer)
		return s.answer != "" && !ok // it has no effect at this site
	})
	switch {
	case len(all) == 0 && j.plan.job.Site.Generic():
		j.planInstall()
		return nil
	case len(all) == 0:
		return nil
	case len(all) == 1:
		j.Say("It starts %s: %s (%s)", cmp.Or(all[0].label, all[0].value), all[0].about, all[0].source)
		return j.useSoftware(all[0])
	}
	offers := make([]offer, len(all))
	for n, s := range all {
		offers[n] = s.offer
	}
	q := configs.Question{Ask: fmt.Sprintf("What should `tunctl up %s` start? Or type a folder, a module, a .sif image or a job script on the host", j.plan.session)}
	return j.ask(ctx, q, "--with", offers, func(text string) error {
		if n := slices.IndexFunc(offers, func(o offer) bool { return o.value == text }); n >= 0 {
			return j.useSoftware(all[n])
		}
		return j.useSoftware(typedSoftware(text))
	})
}

// useSoftware has the session start what was chosen.
func (j *jobQuestions) useSoftware(s software) error {
	switch {
	case s.script:
		j.plan.submit, j.plan.adopts = s.value, s.job != ""
		j.plan.jobName = cmp.Or(s.job, j.plan.jobName)
		if folder := path.Dir(s.value); folder != "~" && folder != "." && folder != j.found.Home {
			j.plan.workdir = folder
		}
	case s.job != "":
		j.plan.jobName, j.plan.adopts = s.job, true
	case s.answer != "":
		q, ok := setting(&j.plan.job, s.answer)
		if !ok {
			return fmt.Errorf("%s runs jobs in its own containers: set prepare in the session for what is inside", j.plan.job.Site.Name)
		}
		return j.plan.job.Answer(q, s.value)
	}
	return nil
}

// software lists what was found, the best first: a script that the user wrote for this
// cluster, their own environments, then those of the site.
func (j *jobQuestions) software() []software {
	var list []software
	if site := j.plan.job.Site; !site.Generic() && (site.Job.Setup != "" || site.Job.Environment != "") {
		list = append(list, software{offer: offer{label: "the site's own setup", about: "from the site file", source: site.Name}})
	}
	serving := slices.Clone(j.found.Serving)
	for _, s := range j.found.Scripts {
		o := software{offer: offer{value: j.tilde(s.Path), about: "your job script", source: "your home folder"}, script: true, job: s.Job}
		if s.Job != "" {
			o.about += " for jobs called " + s.Job
		}
		if n := slices.IndexFunc(serving, func(c api.Candidate) bool { return c.Job.Name == s.Job && s.Job != "" }); n >= 0 {
			o.about += fmt.Sprintf("; its job %s serves %s now", serving[n].Job.ID, serving[n].App)
			serving = slices.Delete(serving, n, n+1)
		}
		list = append(list, o)
	}
	for _, e := range j.found.Environments {
		s := software{offer: offer{value: j.tilde(e.Path), about: environmentText(e), source: e.Source}}
		switch e.Kind {
		case api.EnvironmentModule:
			s.answer = "modules"
		case api.EnvironmentPath:
		default:
			s.answer = string(e.Kind)
		}
		list = append(list, s)
	}
	for _, c := range serving {
		if c.Job.Name != "" {
			list = append(list, software{
				offer: offer{value: "job " + c.Job.ID, about: fmt.Sprintf("%s, which serves %s now; nothing is submitted when it ends", c.Job.Name, c.App), source: "your jobs"}, job: c.Job.Name,
			})
		}
	}
	return list
}

// environmentText describes an environment.
func environmentText(e api.Environment) string {
	name := map[string]string{"jupyterlab": "JupyterLab", "notebook": "Jupyter Notebook", "jupyter_server": "Jupyter Server"}[e.App]
	kind := map[api.EnvironmentKind]string{
		api.EnvironmentVenv: "a virtual environment", api.EnvironmentConda: "a conda environment", api.EnvironmentModule: "a module",
		api.EnvironmentContainer: "an image; whether Jupyter is in it is not known", api.EnvironmentPath: "",
	}[e.Kind]
	text := strings.TrimSpace(name + " " + e.Version)
	if text != "" && kind != "" {
		text += ", "
	}
	return text + kind
}

// typedSoftware is what a user typed, by its form.
func typedSoftware(text string) software {
	s := software{offer: offer{value: text}}
	switch extension := path.Ext(text); {
	case extension == ".sif" || extension == ".simg":
		s.answer = "container"
	case slices.Contains([]string{".sh", ".bash", ".sbatch", ".slurm", ".pbs", ".qsub", ".sge", ".job", ".batch", ".sub"}, extension):
		s.script = true
	case strings.HasPrefix(text, "~/") || strings.HasPrefix(text, "/"):
		s.answer = "venv"
	case strings.Contains(text, "/"):
		s.answer = "modules"
	default:
		s.answer = "conda"
	}
	return s
}

// planInstall has the session use an environment that the user is to make, where no Jupyter
// was found. The command for that is the next step.
func (j *jobQuestions) planInstall() {
	j.plan.install = "~/jupyter"
	j.Say("%s no Jupyter was found on %s. The last lines below say how to install it there.\n"+
		"If it is in another place, type that: venv=FOLDER, conda=NAME or modules=NAME.",
		j.Paint(term.Yellow, "!"), j.plan.host)
	j.set("venv", j.plan.install, "where it will be installed")
}

// tilde is a path on the host as a user writes it.
func (j *jobQuestions) tilde(file string) string {
	if rest, ok := strings.CutPrefix(file, j.found.Home+"/"); ok && j.found.Home != "" && j.found.Home != "/" {
		return "~/" + rest
	}
	return file
}
