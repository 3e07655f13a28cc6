package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
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
func (i *interview) look(ctx context.Context) error {
	if !i.hostExists {
		if err := appendConfig(ctx, i.paths, i.hostText()); err != nil {
			return err
		}
		i.hostExists = true
		i.Say("%s [host.%s] added to %s", i.Paint(term.Green, "✓"), i.host, i.paths.Config)
	}
	if err := i.tryLogin(ctx, i.host, "init"); err != nil {
		return err
	}
	i.loggedIn = true
	if i.ownsJob() {
		return nil // nothing is left to ask
	}
	i.Draw("looking for accounts, partitions and Jupyter there, for at most half a minute …")
	found, err := i.client.Look(ctx, i.host)
	i.Draw("")
	switch {
	case ctx.Err() != nil || api.HasCode(err, api.CodeFailed):
		return err // the host has a scheduler that tunctl cannot use, or runs no commands
	case err != nil:
		i.Say("%s could not find out what is there: %v", i.Paint(term.Yellow, "!"), err)
	default:
		i.found, i.looked = found, true
	}
	for _, problem := range found.Problems {
		i.Say("%s %s: no answer in time", i.Paint(term.Yellow, "!"), problem)
	}
	if i.job.Site.Name == "" {
		i.job.Site, err = i.foundSite(ctx, found.Scheduler)
	}
	return err
}

// foundSite is the site of a host that the person named: the config's, or the generic one of
// its scheduler.
func (i *interview) foundSite(ctx context.Context, scheduler string) (configs.Site, error) {
	known := i.cfg.Host(i.host)
	if scheduler == "" && known.Site == "" {
		var err error
		if scheduler, err = i.answer(ctx, schedulerQuestion(i.host), ""); err != nil {
			return configs.Site{}, err
		}
		i.Say("Set scheduler = %q in [host.%s] if it is not found later either: `tunctl config edit`", scheduler, i.host)
	}
	return i.sites.ForHost(known, scheduler)
}

// isAccount and isPartition tell the questions that a look has answers to, which sites call
// by the words of their schedulers.
func isAccount(q configs.Question) bool { return q.Name == "account" || q.Name == "project" }

func isPartition(q configs.Question) bool { return q.Name == "partition" || q.Name == "queue" }

// offers are the answers to a question that were found and that the site accepts: the
// partitions are those that accept the chosen account.
func (i *interview) offers(q configs.Question) []offer {
	const usual = "your default one"
	account := cmp.Or(i.job.Answers["account"], i.job.Answers["project"])
	var list []offer
	switch {
	case isAccount(q):
		for _, a := range i.found.Accounts {
			o := offer{value: a.Name, source: i.tilde(a.Source)}
			if a.Default {
				o.about = usual
			}
			list = append(list, o)
		}
	case isPartition(q):
		for _, p := range i.found.Partitions {
			if len(p.Accounts) == 0 || account == "" || slices.Contains(p.Accounts, account) {
				list = append(list, offer{value: p.Name, about: partitionText(p), source: p.Source})
			}
		}
	case q.Name == "qos":
		for _, a := range i.found.Accounts {
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
	hasDefault := slices.ContainsFunc(i.found.Partitions, func(p api.Partition) bool { return p.Default })
	if isPartition(q) && len(list) > 0 && !q.Required && i.found.AnyPartition && !hasDefault {
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
		parts = append(parts, "at most "+limitText(p.LimitSeconds))
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

// limitText is a time limit in hours, or in minutes if it is shorter or not whole hours.
func limitText(seconds int64) string {
	if seconds%3600 == 0 {
		return fmt.Sprintf("%d h", seconds/3600)
	}
	return fmt.Sprintf("%d min", seconds/60)
}

// sharesMemory guesses by its name whether a parallel environment gives cores of one node.
var sharesMemory = regexp.MustCompile(`(?i)smp|shm|shared|thread|openmp|multi`)

// fitPartition makes the settings fit the chosen partition: those that the person has not
// given and that it could not run.
func (i *interview) fitPartition(name string) {
	usage := i.found.Cluster
	if n := slices.IndexFunc(i.found.Partitions, func(p api.Partition) bool { return p.Name == name }); n >= 0 {
		part := i.found.Partitions[n]
		if part.CPUs > 0 {
			usage = part.PartitionUsage
		}
		i.lower("hours", math.Floor(float64(part.LimitSeconds)/36)/100)
		if part.GPUOnly {
			i.set("gpus", "1", "its nodes are for GPUs")
		}
		if part.QoS != "" {
			i.args = append(i.args, "--qos="+part.QoS)
			i.Say("qos = %s: %s does not accept your default one", part.QoS, part.Name)
		}
	}
	i.lower("cpus", float64(usage.NodeCPUs))
	if q, _ := i.setting("memory"); usage.NodeMB > 0 && megabytes(q.Default) > usage.NodeMB {
		unit := "M"
		if strings.HasSuffix(strings.ToLower(q.Default), "b") {
			unit = "mb"
		}
		i.set("memory", strconv.Itoa(usage.NodeMB/2)+unit, fmt.Sprintf("the largest node there has %d MB", usage.NodeMB))
	}
	if n := slices.IndexFunc(i.found.Parallel, sharesMemory.MatchString); n >= 0 && !slices.Contains(i.found.Parallel, "smp") {
		i.set("pe", i.found.Parallel[n], "of those that qconf -spl lists")
	}
}

// set answers a question of the job, if it has it and the person did not answer it.
func (i *interview) set(name, value, why string) {
	q, ok := i.setting(name)
	if _, given := i.job.Answers[name]; !ok || given || i.job.Answer(q, value) != nil {
		return
	}
	i.Say("%s = %s: %s", name, value, why)
}

// lower sets a number of the job that is more than the partition has; 0 is unknown.
func (i *interview) lower(name string, most float64) {
	q, _ := i.setting(name)
	if now, err := strconv.ParseFloat(q.Default, 64); err == nil && most > 0 && now > most {
		i.set(name, strconv.FormatFloat(most, 'f', -1, 64), "no more is possible there")
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

// tilde is a path on the host as a person writes it.
func (i *interview) tilde(file string) string {
	if rest, ok := strings.CutPrefix(file, i.found.Home+"/"); ok && i.found.Home != "" && i.found.Home != "/" {
		return "~/" + rest
	}
	return file
}
