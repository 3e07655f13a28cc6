package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/term"
)

// look logs in, and finds out what the host has. For that the agent needs the host in the
// config; the session follows at the end.
func (i *interview) look(ctx context.Context, p *plan) error {
	if !p.hostExists {
		text := p.hostText()
		if err := appendConfig(ctx, i.inv.paths, text); err != nil {
			return err
		}
		p.hostExists = true
		i.term.Say("%s [host.%s] added to %s", i.term.Paint(term.Green, "✓"), p.host, i.inv.paths.Config)
	}
	if err := i.inv.tryLogin(ctx, p.host, "init"); err != nil {
		return err
	}
	p.loggedIn = true
	if p.submit != "" || p.adopts {
		return nil // nothing is left to ask
	}
	i.term.Draw("looking for accounts, partitions and Jupyter there, for at most half a minute …")
	found, err := i.inv.client.Look(ctx, p.host)
	i.term.Draw("")
	switch e, ok := errors.AsType[*api.Error](err); {
	case ctx.Err() != nil || ok && e.Code == api.CodeFailed:
		return err // the host has a scheduler that tunctl cannot use, or runs no commands
	case err != nil:
		i.term.Say("%s could not find out what is there: %v", i.term.Paint(term.Yellow, "!"), err)
	default:
		i.found = &found
	}
	for _, problem := range found.Problems {
		i.term.Say("%s %s: no answer in time", i.term.Paint(term.Yellow, "!"), problem)
	}
	if p.site.Name != "" {
		return nil
	}
	p.site, err = i.foundSite(ctx, p.host, found.Scheduler)
	return err
}

// foundSite is the site of a host that the person named: the config's, or the generic one of
// its scheduler.
func (i *interview) foundSite(ctx context.Context, host, scheduler string) (configs.Site, error) {
	known := i.cfg.Host(host)
	if scheduler == "" && known.Site == "" {
		q := schedulerQuestion(host)
		var err error
		if scheduler, err = i.answer(ctx, q, "--scheduler"); err != nil {
			return configs.Site{}, err
		}
		i.term.Say("Set scheduler = %q in [host.%s] if it is not found later either: `tunctl config edit`", scheduler, host)
	}
	return i.sites.ForHost(known, scheduler)
}

// offer is a numbered answer.
type offer struct {
	value  string
	label  string // what is shown for the value, if not the value
	about  string
	source string // where it was found
}

// maxOffers is how many answers are shown for one question.
const maxOffers = 12

// choose has the person choose an offer by its number, or type another answer. Enter is the
// first. NAME=VALUE changes a setting of the job instead, and the question stays open.
func (i *interview) choose(ctx context.Context, ask string, offers []offer, job *configs.Job, check func(string) error) (offer, error) {
	i.term.Say("%s", ask)
	offers, more := offers[:min(len(offers), maxOffers)], len(offers)-maxOffers
	width := 0
	for _, o := range offers {
		width = max(width, term.TextWidth(cmp.Or(o.label, o.value)))
	}
	for n, o := range offers {
		about := o.about
		if o.source != "" {
			about = strings.TrimLeft(about+" ("+o.source+")", " ")
		}
		line := fmt.Sprintf("%3d) %s  %s", n+1, term.Pad(cmp.Or(o.label, o.value), width), about)
		if columns := i.term.Width(); columns > 0 {
			line = strings.Join(term.Wrap(line, columns-1, 7), "\n")
		}
		i.term.Say("%s", line)
	}
	if more > 0 {
		i.term.Say("     and %d more", more)
	}
	for {
		text, err := i.ask(ctx, "A number, or any other answer [1]: ")
		if err != nil {
			return offer{}, err
		}
		n, notNumber := strconv.Atoi(cmp.Or(text, "1"))
		switch {
		case notNumber == nil && n >= 1 && n <= len(offers):
			return offers[n-1], nil
		case notNumber == nil:
			i.term.Say("No line above has the number %s.", text)
		case text == "?":
			i.term.Say("Type the number of a line, or press Enter for the first; Ctrl-C stops.")
		case i.changeSetting(job, text):
		case misspelledSetting.MatchString(text):
			i.term.Say("%q is not a setting of the job; the settings are: %s", text, strings.Join(settingNames(job), ", "))
		default:
			if err := check(text); err != nil {
				i.term.Say("%v", err)
				continue
			}
			return offer{value: text}, nil
		}
	}
}

// misspelledSetting matches NAME=VALUE, which is neither an account, a partition nor a path.
var misspelledSetting = regexp.MustCompile(`^\s*[a-z_]+\s*=`)

func settingNames(job *configs.Job) []string {
	var names []string
	for _, q := range job.Questions() {
		names = append(names, q.Name)
	}
	return names
}

// changeSetting changes a setting of the job by NAME=VALUE, and reports whether the text is one.
func (i *interview) changeSetting(job *configs.Job, text string) bool {
	name, value, ok := strings.Cut(text, "=")
	questions := job.Questions()
	n := slices.IndexFunc(questions, func(q configs.Question) bool { return q.Name == strings.TrimSpace(name) })
	if !ok || n < 0 {
		return false
	}
	if err := job.Answer(questions[n], value); err != nil {
		i.term.Say("%v", err)
		return true
	}
	i.term.Say("%s = %s", questions[n].Name, job.Answers[questions[n].Name])
	return true
}

// askFound asks what the look did not settle: what to start, who pays, and where it runs. A
// question with one answer is not asked.
func (i *interview) askFound(ctx context.Context, p *plan) error {
	job := &configs.Job{App: i.app, Name: i.app, Site: p.site, Answers: i.answers}
	if err := i.askSoftware(ctx, job, p); err != nil {
		return err
	}
	if p.submit != "" || p.adopts {
		return nil // a script of the person's own has its answers
	}
	asked := false
	for _, q := range p.site.Questions {
		offers := i.offers(q, job)
		_, given := job.Answers[q.Name]
		switch {
		case given:
		case len(offers) > 1:
			if !asked && p.site.Generic() {
				i.showSettings(job, " Type NAME=VALUE at a question to change one, as in hours=8.")
			}
			asked = true
			if err := i.chooseAnswer(ctx, job, q, offers); err != nil {
				return err
			}
		case len(offers) == 1:
			i.term.Say("%s: %s (%s)", q.Name, offers[0].value, offers[0].source)
			if err := job.Answer(q, offers[0].value); err != nil {
				return err
			}
		case q.Quiet || p.site.Generic():
		default:
			if q.Kind == configs.AskQueue {
				i.listQueues(p.site)
			}
			if err := i.askAnswer(ctx, job, q); err != nil {
				return err
			}
		}
		if p.site.Generic() && isPartition(q) {
			i.fitPartition(job, q, p)
		}
	}
	switch {
	case !p.site.Generic():
		if err := i.askOthers(ctx, job); err != nil {
			return err
		}
	case !asked:
		i.showSettings(job, "")
		if err := i.askSettings(ctx, job); err != nil {
			return err
		}
	}
	p.answers = job.Answers
	_, err := job.Script() // checks the answers given by flags, too
	return err
}

// chooseAnswer asks a question of the site with offers.
func (i *interview) chooseAnswer(ctx context.Context, job *configs.Job, q configs.Question, offers []offer) error {
	ask, _, _ := strings.Cut(q.Ask, "?") // without what an empty answer means
	for {
		chosen, err := i.choose(ctx, ask+"?", offers, job, func(text string) error {
			_, err := q.Check(text)
			return err
		})
		if err != nil || chosen.value == "" {
			return err
		}
		if err = job.Answer(q, chosen.value); err == nil {
			return nil
		}
		i.term.Say("%v", err)
	}
}

// isAccount and isPartition tell the questions that a look has answers to, which sites call
// by the words of their schedulers.
func isAccount(q configs.Question) bool { return q.Name == "account" || q.Name == "project" }

func isPartition(q configs.Question) bool { return q.Name == "partition" || q.Name == "queue" }

// offers are the answers to a question that were found and that the site accepts.
func (i *interview) offers(q configs.Question, job *configs.Job) []offer {
	var list []offer
	switch {
	case isAccount(q):
		list = i.accountOffers()
	case isPartition(q):
		list = i.partitionOffers(job.Answers)
	case q.Name == "qos":
		list = i.qosOffers(job.Answers)
	}
	list = slices.DeleteFunc(list, func(o offer) bool {
		checked, err := q.Check(o.value)
		return err != nil || checked != o.value
	})
	hasDefault := slices.ContainsFunc(i.found.Partitions, func(p api.Partition) bool { return p.Default })
	if isPartition(q) && len(list) > 0 && !q.Required && i.found.AnyPartition && !hasDefault {
		list = slices.Insert(list, 0, offer{label: "any", about: "the scheduler chooses"})
	}
	return list
}

func (i *interview) accountOffers() []offer {
	var list []offer
	for _, a := range i.found.Accounts {
		if slices.ContainsFunc(list, func(o offer) bool { return o.value == a.Name }) {
			continue
		}
		o := offer{value: a.Name, source: i.tilde(a.Source)}
		if a.Default {
			o.about = "your default one"
		}
		list = append(list, o)
	}
	return list
}

func (i *interview) qosOffers(answers map[string]string) []offer {
	var list []offer
	for _, a := range i.found.Accounts {
		if account := cmp.Or(answers["account"], answers["project"]); account != "" && account != a.Name {
			continue
		}
		for _, name := range a.QoS {
			o := offer{value: name, source: a.Source}
			if slices.ContainsFunc(list, func(o offer) bool { return o.value == name }) {
				continue
			}
			if name == a.DefaultQoS {
				o.about = "your default one"
				list = slices.Insert(list, 0, o)
				continue
			}
			list = append(list, o)
		}
	}
	return list
}

// partitionOffers are the partitions that accept the chosen account.
func (i *interview) partitionOffers(answers map[string]string) []offer {
	account := cmp.Or(answers["account"], answers["project"])
	var list []offer
	for _, p := range i.found.Partitions {
		if len(p.Accounts) == 0 || account == "" || slices.Contains(p.Accounts, account) {
			list = append(list, offer{value: p.Name, about: partitionText(p), source: p.Source})
		}
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
		parts = append(parts, "at most "+limitText(p.LimitSeconds))
	}
	if p.CPUs > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d cores free", p.FreeCPUs, p.CPUs))
	}
	if p.GPUs > 0 {
		name := "GPUs"
		if len(p.GPUTypes) > 0 {
			name += " " + strings.Join(p.GPUTypes, ", ")
		}
		parts = append(parts, fmt.Sprintf("%s: %d of %d free", name, p.FreeGPUs, p.GPUs))
	}
	return strings.Join(parts, ", ")
}

// limitText is a time limit in hours, or in minutes if it is shorter or not whole hours.
func limitText(seconds int64) string {
	if seconds%3600 == 0 {
		return fmt.Sprintf("%d h", seconds/3600)
	}
	return fmt.Sprintf("%d min", seconds/60)
}

// fitPartition makes the settings fit the chosen partition: those that the person has not
// given and that it could not run.
func (i *interview) fitPartition(job *configs.Job, q configs.Question, p *plan) {
	name := job.Answers[q.Name]
	n := slices.IndexFunc(i.found.Partitions, func(p api.Partition) bool { return p.Name == name })
	usage := i.found.Cluster
	if n >= 0 {
		part := i.found.Partitions[n]
		if part.CPUs > 0 {
			usage = part.PartitionUsage
		}
		if hours := float64(part.LimitSeconds) / 3600; hours > 0 {
			i.lower(job, "hours", hours, func(n float64) string { return strconv.FormatFloat(float64(int(n*100))/100, 'f', -1, 64) })
		}
		if _, given := job.Answers["gpus"]; part.GPUOnly && !given {
			i.set(job, "gpus", "1", "its nodes are for GPUs")
		}
		if part.QoS != "" {
			p.args = append(p.args, "--qos="+part.QoS)
			i.term.Say("qos = %s: %s does not accept your default one", part.QoS, part.Name)
		}
	}
	if usage.NodeCPUs > 0 {
		i.lower(job, "cpus", float64(usage.NodeCPUs), func(n float64) string { return strconv.Itoa(int(n)) })
	}
	if usage.NodeMB > 0 {
		i.lowerMemory(job, usage.NodeMB)
	}
	if len(i.found.Parallel) > 0 && !slices.Contains(i.found.Parallel, "smp") {
		if n := slices.IndexFunc(i.found.Parallel, sharesMemory); n >= 0 {
			i.set(job, "pe", i.found.Parallel[n], "of those that qconf -spl lists")
		}
	}
}

// sharesMemory guesses by its name whether a parallel environment gives cores of one node.
func sharesMemory(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"smp", "shm", "shared", "thread", "openmp", "multi"}, func(word string) bool { return strings.Contains(name, word) })
}

// question is a question of the job by its name.
func question(job *configs.Job, name string) (configs.Question, bool) {
	all := job.Questions()
	n := slices.IndexFunc(all, func(q configs.Question) bool { return q.Name == name })
	if n < 0 {
		return configs.Question{}, false
	}
	return all[n], true
}

// set answers a question of the job, if it has it and the person did not answer it.
func (i *interview) set(job *configs.Job, name, value, why string) {
	q, ok := question(job, name)
	if _, given := job.Answers[name]; !ok || given || job.Answer(q, value) != nil {
		return
	}
	i.term.Say("%s = %s: %s", name, value, why)
}

// lower sets a number of the job that is more than the partition has.
func (i *interview) lower(job *configs.Job, name string, most float64, format func(float64) string) {
	q, _ := question(job, name)
	if now, err := strconv.ParseFloat(q.Default, 64); err == nil && now > most {
		i.set(job, name, format(most), "no more is possible there")
	}
}

// lowerMemory sets the memory of a job to half of that of the largest node, if its default is
// more than such a node has.
func (i *interview) lowerMemory(job *configs.Job, nodeMB int) {
	q, _ := question(job, "memory")
	if megabytes(q.Default) > nodeMB {
		unit := "M"
		if strings.HasSuffix(strings.ToLower(q.Default), "b") {
			unit = "mb"
		}
		i.set(job, "memory", strconv.Itoa(nodeMB/2)+unit, fmt.Sprintf("the largest node there has %d MB", nodeMB))
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

// showSettings shows the answers that are not asked for one by one, and how to change them.
func (i *interview) showSettings(job *configs.Job, how string) {
	var list []string
	for _, q := range job.Questions() {
		value, given := job.Answers[q.Name]
		if !given {
			value = q.Default
		}
		if value != "" && !isAccount(q) && !isPartition(q) {
			list = append(list, q.Name+"="+value)
		}
	}
	if len(list) > 0 {
		i.term.Say("Settings: %s.%s", strings.Join(list, " "), how)
	}
}

// askSettings reads changes of the settings, where no other question was asked.
func (i *interview) askSettings(ctx context.Context, job *configs.Job) error {
	for {
		text, err := i.ask(ctx, "Change one with NAME=VALUE, or press Enter to continue: ")
		if err != nil || text == "" {
			return err
		}
		if !i.changeSetting(job, text) {
			i.term.Say("%q is not NAME=VALUE with one of the names above", text)
		}
	}
}

// tilde is a path on the host as a person writes it.
func (i *interview) tilde(file string) string {
	if home := i.found.Home; home != "" && home != "/" {
		if rest, ok := strings.CutPrefix(file, home+"/"); ok {
			return "~/" + rest
		}
	}
	return file
}
