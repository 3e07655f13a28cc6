package setup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/term"
)

// jobQuestions asks what the session's job needs, with what was found on the host.
type jobQuestions struct {
	*asker
	config *configs.Config
	plan   *plan
	looked bool // on the host
}

// askAll asks the site's questions, in their order. One with a single offer is not asked, and
// neither is a quiet one without: most people keep its default. After a look at a host of no
// known site, all without offers are quiet. A session that is changed has its answers.
func (j *jobQuestions) askAll(ctx context.Context) error {
	if j.plan.changes {
		if err := j.askChanges(ctx, true); err != nil {
			return err
		}
		_, err := j.plan.job.Script()
		return err
	}
	if j.looked {
		if err := j.askSoftware(ctx); err != nil || j.plan.ownsJob() {
			return err // a script of the user's own has its answers
		}
	}
	site := j.plan.job.Site
	brief, asked := j.looked && site.Generic(), false
	for _, q := range site.Questions {
		offers := j.offers(q)
		_, given := j.plan.job.Answers[q.Name]
		switch {
		case given || len(offers) == 0 && (q.Quiet || brief):
		case len(offers) == 1:
			j.Say("%s: %s (%s)", q.Name, offers[0].value, offers[0].source)
			if err := j.plan.job.Answer(q, offers[0].value); err != nil {
				return err
			}
		default:
			if brief && !asked {
				j.showSettings(" Type NAME=VALUE at a question to change one, as in hours=8.")
			}
			asked = true
			if err := j.askSetting(ctx, q, offers); err != nil {
				return err
			}
		}
		if brief && isPartition(q) {
			j.fitPartition(j.plan.job.Answers[q.Name])
		}
	}
	if j.Interactive && (!brief || !asked) {
		if err := j.askChanges(ctx, brief); err != nil {
			return err
		}
	}
	_, err := j.plan.job.Script() // checks the answers given by flags, too
	return err
}

// askSetting asks until the answer fits the question and the earlier answers.
func (j *jobQuestions) askSetting(ctx context.Context, q configs.Question, offers []offer) error {
	if len(offers) > 0 {
		ask, _, _ := strings.Cut(q.Ask, "?") // without what an empty answer means
		q.Ask = ask + "?"
	} else if q.Kind == configs.AskQueue && j.Interactive {
		for _, queue := range j.plan.job.Site.Queues {
			j.Say("  %-20s %s", queue.Name, queue.Limits())
		}
	}
	return j.ask(ctx, q, "--with "+q.Name+"=…", offers, func(text string) error {
		if text == "" && !q.Required {
			return nil
		}
		return j.answerSetting(q, text)
	})
}

// askChanges shows the settings that were not asked one by one, and reads the user's changes.
func (j *jobQuestions) askChanges(ctx context.Context, brief bool) error {
	if brief {
		j.showSettings("")
	} else if !j.listSettings() {
		return nil
	}
	return j.ask(ctx, configs.Question{Ask: "Change one with NAME=VALUE, or press Enter to continue:"}, "--with", nil, func(text string) error {
		if text != "" {
			return fmt.Errorf("%q is not NAME=VALUE with one of the names above", text)
		}
		return nil
	})
}

// showSettings shows the settings in one line, and how to change them. The account and the
// partition are those that were just chosen, unless a session is changed.
func (j *jobQuestions) showSettings(how string) {
	answers := map[string]string{}
	questions := slices.DeleteFunc(j.plan.job.Questions(), func(q configs.Question) bool {
		return !j.plan.changes && (isAccount(q) || isPartition(q))
	})
	for _, q := range questions {
		answers[q.Name] = q.Default
	}
	maps.Copy(answers, j.plan.job.Answers)
	if text := answersText(questions, answers); text != "" {
		j.Say("Settings: %s.%s", text, how)
	}
}

// answersText are answers in the order of the questions.
func answersText(questions []configs.Question, answers map[string]string) string {
	var list []string
	for _, q := range questions {
		if value := answers[q.Name]; value != "" {
			list = append(list, q.Name+"="+value)
		}
	}
	return strings.Join(list, " ")
}

// listSettings explains the quiet questions without an answer, and reports whether there are any.
func (j *jobQuestions) listSettings() bool {
	listed := false
	for _, q := range j.plan.job.Questions() {
		if _, given := j.plan.job.Answers[q.Name]; !q.Quiet || given {
			continue
		}
		if !listed {
			j.Say("Other settings:")
		}
		listed = true
		j.sayWrapped(fmt.Sprintf("  %-10s %s%s", q.Name, q.Ask, q.DefaultText()), 13)
	}
	return listed
}

// isAccount and isPartition tell the questions that a look has answers to, which sites call
// by the words of their schedulers.
func isAccount(q configs.Question) bool { return q.Name == "account" || q.Name == "project" }

func isPartition(q configs.Question) bool { return q.Name == "partition" || q.Name == "queue" }

// offers are the answers to a question that were found and that the site accepts: the
// partitions are those that accept the chosen account.
func (j *jobQuestions) offers(q configs.Question) []offer {
	const usual = "your default one"
	account := cmp.Or(j.plan.job.Answers["account"], j.plan.job.Answers["project"])
	var list []offer
	switch {
	case isAccount(q):
		for _, a := range j.found.Accounts {
			o := offer{value: a.Name, source: j.tilde(a.Source)}
			if a.Default {
				o.about = usual
			}
			list = append(list, o)
		}
	case isPartition(q):
		for _, p := range j.found.Partitions {
			if len(p.Accounts) == 0 || account == "" || slices.Contains(p.Accounts, account) {
				list = append(list, offer{value: p.Name, about: partitionText(p), source: p.Source})
			}
		}
	case q.Name == "qos":
		for _, a := range j.found.Accounts {
			if account != "" && account != a.Name {
				continue
			}
			for _, name := range a.QoS {
				if name == a.DefaultQoS {
					list = slices.Insert(list, 0, offer{value: name, about: usual, source: a.Source})
				} else {
					list = append(list, offer{value: name, source: a.Source})
				}
			}
		}
	}
	seen := map[string]bool{}
	list = slices.DeleteFunc(list, func(o offer) bool {
		checked, err := q.Check(o.value)
		again := seen[o.value]
		seen[o.value] = true
		return again || err != nil || checked != o.value
	})
	hasDefault := slices.ContainsFunc(j.found.Partitions, func(p api.Partition) bool { return p.Default })
	if isPartition(q) && len(list) > 0 && !q.Required && j.found.AnyPartition && !hasDefault {
		list = slices.Insert(list, 0, offer{label: "any", about: "the scheduler chooses"})
	}
	return list
}

// partitionText describes a partition.
func partitionText(p api.Partition) string {
	var parts []string
	if p.Default {
		parts = append(parts, "the default")
	}
	if p.LimitSeconds > 0 {
		parts = append(parts, "at most "+configs.Period(time.Duration(p.LimitSeconds)*time.Second).Words())
	}
	if p.CPUs > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d cores free", p.FreeCPUs, p.CPUs))
	}
	if p.GPUs > 0 {
		name := strings.TrimSpace("GPUs " + strings.Join(p.GPUTypes, ", "))
		parts = append(parts, fmt.Sprintf("%s: %d of %d free", name, p.FreeGPUs, p.GPUs))
	}
	return strings.Join(parts, ", ")
}

// sharesMemory guesses by its name whether a parallel environment gives cores of one node.
var sharesMemory = regexp.MustCompile(`(?i)smp|shm|shared|thread|openmp|multi`)

// fitPartition makes the settings fit the chosen partition: those that the user has not
// given and that it could not run.
func (j *jobQuestions) fitPartition(name string) {
	j.lower("hours")
	if n := slices.IndexFunc(j.found.Partitions, func(p api.Partition) bool { return p.Name == name }); n >= 0 {
		part := j.found.Partitions[n]
		if part.GPUOnly {
			j.set("gpus", "1", "its nodes are for GPUs")
		}
		if part.QoS != "" {
			j.plan.args = append(j.plan.args, "--qos="+part.QoS)
			j.Say("qos = %s: %s does not accept your default one", part.QoS, part.Name)
		}
	}
	j.lower("cpus")
	most := int(j.most("memory"))
	if q, _ := j.plan.job.Question("memory"); most > 0 && megabytes(q.Default) > most {
		unit := "M"
		if strings.HasSuffix(strings.ToLower(q.Default), "b") {
			unit = "mb"
		}
		j.set("memory", strconv.Itoa(most/2)+unit, fmt.Sprintf("the largest node there has %d MB", most))
	}
	if n := slices.IndexFunc(j.found.Parallel, sharesMemory.MatchString); n >= 0 && !slices.Contains(j.found.Parallel, "smp") {
		j.set("pe", j.found.Parallel[n], "of those that qconf -spl lists")
	}
}

// set answers a question of the job, if it has it and the user did not answer it.
func (j *jobQuestions) set(name, value, why string) {
	q, ok := j.plan.job.Question(name)
	if _, given := j.plan.job.Answers[name]; !ok || given || j.plan.job.Answer(q, value) != nil {
		return
	}
	j.Say("%s = %s: %s", name, value, why)
}

// lower sets a number of the job that is more than the partition has; 0 is unknown.
func (j *jobQuestions) lower(name string) {
	if q, _ := j.plan.job.Question(name); j.tooMuch(map[string]string{name: q.Default}) != nil {
		j.set(name, strconv.FormatFloat(j.most(name), 'f', -1, 64), "no more is possible there")
	}
}

// megabytes reads 8G or 8gb; 0 for what it cannot read.
func megabytes(text string) int {
	text = strings.TrimSuffix(strings.ToUpper(text), "B")
	for unit, size := range map[string]int{"M": 1, "G": 1 << 10, "T": 1 << 20} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			n, _ := strconv.Atoi(number)
			return n * size
		}
	}
	return 0
}

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
		_, ok := j.plan.job.Question(s.answer)
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
		q, ok := j.plan.job.Question(s.answer)
		if !ok {
			return fmt.Errorf("%s runs jobs in its own containers: set prepare in the session for what is inside", j.plan.job.Site.Name)
		}
		return j.plan.job.Answer(q, s.value)
	}
	return nil
}

// software lists what was found, the best first: a script that the user wrote for this
// cluster, their own environments, then those of the site. A script that a session has already is the
// last: choosing it adds nothing.
func (j *jobQuestions) software() []software {
	var list, used []software
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
		if user := (plan{host: j.plan.host, submit: o.value, adopts: s.Job != "", jobName: s.Job}).usedBy(j.config); user != "" {
			o.about += "; [session." + user + "] uses it already"
			used = append(used, o)
			continue
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
	return append(list, used...)
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
