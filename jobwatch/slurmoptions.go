package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slurmChoices are sbatch's words for choices. The last of two options for the same counts,
// and the command line has precedence over the script.
var slurmChoices = map[string]choiceWord{
	"hours":     hoursAs(optionWord("time")),
	"cpus":      optionWord("cpus-per-task"),
	"memory":    optionWord("mem"),
	"gpus":      slurmGPUs,
	"nodes":     optionWord("nodes"),
	"account":   optionWord("account"),
	"project":   optionWord("account"),
	"partition": optionWord("partition"),
	"queue":     optionWord("partition"),
	"qos":       optionWord("qos"),
}

// gpuOptions are sbatch's options for GPUs.
var gpuOptions = []string{"gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "gres"}

// slurmGPUs changes the number in the option that the job has, and keeps the type of GPU. Two
// of these options must agree, so a job that has two is left alone.
func slurmGPUs(c chosen) (option, error) {
	var has []option
	for _, name := range gpuOptions {
		if value, ok := lastOption(c.given(), name); ok && (name != "gres" || strings.Contains(value, "gpu")) {
			has = append(has, option{name, value})
		}
	}
	switch len(has) {
	case 0:
		others, _ := lastOption(c.given(), "gres") // which the argument would replace
		return option{"gres", strings.TrimPrefix(others+",gpu:"+c.value, ",")}, nil
	case 1:
	default:
		return option{}, c.refuse("the job has both --"+has[0].name+" and --"+has[1].name, "remove one of them from the script")
	}
	o := has[0]
	m := oneGPUType.FindStringSubmatch(o.value)
	if m == nil {
		return option{}, c.refuse("--"+o.name+"="+o.value+" asks for several kinds", "change the script")
	}
	o.value = m[1] + c.value
	return o, nil
}

// oneGPUType matches the value of an option for GPUs of one type; its group is what the number
// follows. "gpu" alone is one GPU.
var oneGPUType = regexp.MustCompile(`^((?:gpu:|gres/gpu:)?(?:[A-Za-z][\w.-]*:)?)\d+$`)

// slurmRequest reads what a job asks for.
func slurmRequest(list []option) Request {
	value := func(name string) string {
		text, _ := lastOption(list, name)
		return text
	}
	_, exclusive := lastOption(list, "exclusive")
	nodes := count(value("nodes"), 1)
	tasks := count(value("ntasks"), nodes*count(value("ntasks-per-node"), 1))
	r := Request{
		Time: slurmLimit(value("time")), Nodes: nodes, CPUs: tasks * count(value("cpus-per-task"), 1), Exclusive: exclusive,
	}
	for _, name := range gpuOptions {
		n := 0
		for item := range strings.SplitSeq(value(name), ",") {
			if name != "gres" || strings.HasPrefix(strings.TrimPrefix(item, "gres/"), "gpu") {
				n += gpusOf(item)
			}
		}
		switch name {
		case "gres", "gpus-per-node":
			n *= nodes
		case "gpus-per-task":
			n *= tasks
		}
		r.GPUs = max(r.GPUs, n)
	}
	return r
}

// slurmSharedLog is the --output of a job without its id or its name.
func slurmSharedLog(list []option) string {
	file, _ := lastOption(list, "output")
	if file == "/dev/null" || differingLog.MatchString(file) {
		return ""
	}
	return file
}

var differingLog = regexp.MustCompile(`%\d*[jJAx]`)

// sizeOptions are those that say how large a job is. sbatch also accepts their beginnings.
var sizeOptions = []string{"array", "gpus", "nodelist", "nodes", "ntasks", "time"}

// slurmSize: a task, and a GPU, is on one node, so that there are no more nodes than tasks or
// GPUs if their number is not said.
func slurmSize(r repeated) Size {
	for _, o := range slices.Concat(r.script, r.args) {
		for _, name := range sizeOptions {
			if o.name != name && o.name != "" && strings.HasPrefix(name, o.name) {
				return Size{}
			}
		}
	}
	limit, _ := r.option("time", seconds(slurmLimit))
	jobs, _ := r.option("array", arrayJobs)
	nodes, given := r.option("nodes", lastNumber)
	if !given {
		tasks, _ := r.option("ntasks", number)
		gpus, _ := r.option("gpus", func(text string) (sum int) {
			for item := range strings.SplitSeq(text, ",") {
				sum += gpusOf(item)
			}
			return sum
		})
		names, _ := r.option("nodelist", func(text string) int {
			if strings.Contains(text, "[") || strings.Contains(text, "/") { // a range, or a file
				return unknownSize
			}
			return strings.Count(text, ",") + 1
		})
		nodes = max(tasks, gpus, names)
	}
	return sizeOf(limit, nodes, jobs)
}

// gpusOf reads how many GPUs "2", "a100:2" or "gpu:a100:2" are; "gpu" alone is one.
func gpusOf(item string) int {
	if item == "" {
		return 0
	}
	return count(item[strings.LastIndexByte(item, ':')+1:], 1)
}

// slurmLimit reads a time limit: minutes, minutes:seconds, hours:minutes:seconds, and all
// after days- with the hours first.
func slurmLimit(text string) time.Duration {
	days, rest, hasDays := strings.Cut(text, "-")
	if !hasDays {
		if minutes, err := strconv.Atoi(text); err == nil {
			return time.Duration(minutes) * time.Minute
		}
		return parseClockTime(text)
	}
	rest += strings.Repeat(":00", max(0, 2-strings.Count(rest, ":")))
	return time.Duration(count(days, 0))*24*time.Hour + parseClockTime(rest)
}

// startsAt is what sbatch --test-only writes to standard error.
var startsAt = regexp.MustCompile(`(?m)^(?:\S+: )?Job \d+ to start at (\S+)`)

// testStart has sbatch test the job. Where a wrapper drops --test-only, the job is submitted:
// it is cancelled in the same command.
func (s slurm) testStart(ctx context.Context, sh *shell, t startTest) (Start, error) {
	if err := t.awaitTurn(ctx); err != nil {
		return Start{}, err
	}
	res, err := sh.login(ctx, slurmPrelude+testScript(sh, t.job, `sbatch --test-only --parsable "$@"`,
		`case $1 in *\;*) limit scancel -M "${1#*;}" "${1%%;*}" ;; *) limit scancel "$1" ;; esac`,
		`s/^\([0-9][0-9]*\)\(;.*\)\{0,1\}$/\1\2/p`,
		`s/^Submitted batch job \([0-9][0-9]*\) on cluster \([^ ]*\).*$/\1;\2/p; s/^Submitted batch job \([0-9][0-9]*\).*$/\1/p`))
	if err != nil {
		return Start{}, err
	}
	if start, submitted := readSubmitted(res); submitted {
		return start, nil
	}
	if res.Exit != 0 {
		if err := slurmProblem("sbatch", res); errors.Is(err, ErrNoAnswer) {
			return Start{}, err
		}
		return Start{}, refusal(res, slurmRefusals)
	}
	m := startsAt.FindSubmatch(res.Stderr)
	if m == nil {
		return Start{Words: fmt.Sprintf("sbatch --test-only does not tell: %q", lastErrorLine(res))}, nil
	}
	return Start{At: slurmTime(string(m[1]))}, nil
}
