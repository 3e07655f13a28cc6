package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"tunctl/internal/api"
)

// pbs is PBS Professional or OpenPBS.
type pbs struct{}

func (pbs) name() string { return PBS }

func (pbs) terse() bool { return false }

// maxListed bounds a query. PBS prints some 2 KB a job.
const maxListed = "500"

// list asks for the person's own jobs only; qstat -f cannot filter by user. Its JSON
// is often broken by what stands in Variable_List, so that the text is read.
func (pbs) list(ctx context.Context, sh *shell) ([]api.Job, error) {
	res, err := sh.login(ctx, quiet+`ids=$(limit qselect -u "$(id -un)") || exit
ids=$(printf '%s\n' "$ids" | head -n `+maxListed+`)
test -z "$ids" || limit qstat -f $ids`)
	if err != nil {
		return nil, err
	}
	jobs := parseQstat(string(res.Stdout))
	// A job that ends between the two commands fails the second, which still prints
	// the others.
	if err := pbsProblem("qstat", res); err != nil && !errors.Is(err, errNoJob) {
		return nil, err
	}
	return jobs, nil
}

// detail also looks into the job's script for a redirection of its output, since PBS
// keeps standard output on the node until the job ends.
func (p pbs) detail(ctx context.Context, sh *shell, id string) (api.Job, error) {
	job, record, err := p.record(ctx, sh, id)
	if err != nil {
		return api.Job{}, err
	}
	p.setLog(ctx, sh, &job, record)
	return job, nil
}

func (p pbs) record(ctx context.Context, sh *shell, id string) (api.Job, pbsRecord, error) {
	tasks := ""
	if strings.Contains(id, "[]") {
		tasks = "-t "
	}
	res, err := sh.login(ctx, quiet+"out=$(limit qstat -x -f "+tasks+quote(id)+")\nset -- $?\nprintf '%s\\n' \"$out\" | head -c 1048576\nexit $1")
	if err != nil {
		return api.Job{}, nil, err
	}
	records := splitQstat(string(res.Stdout))
	job, ok := pick(p, jobsOf(records), id)
	if !ok {
		if err := pbsProblem("qstat", res); err != nil {
			return api.Job{}, nil, err
		}
		return api.Job{}, nil, errNoJob
	}
	for _, r := range records {
		if r["Job Id"] == job.ID {
			return job, r, nil
		}
	}
	return job, nil, nil
}

func (p pbs) tagged(ctx context.Context, sh *shell, tag string) (api.Job, error) {
	jobs, err := p.recorded(ctx, sh)
	if err != nil {
		return api.Job{}, err
	}
	for _, job := range jobs {
		if hasTag(job, tag) {
			return job, nil
		}
	}
	return api.Job{}, errNoJob
}

// submit has the output written where it belongs from the start (-k oed), unless the
// script or the person says otherwise.
func (pbs) submit() string {
	return `tunctl_keep='-k oed'
for tunctl_i; do case $tunctl_i in -k*|-o*) tunctl_keep=;; esac; done
if grep -Eq '^#PBS[[:space:]](.*[[:space:]])?-[ko]' "$tunctl_script"; then tunctl_keep=; fi
tunctl_limit qsub $tunctl_keep "$@" "$tunctl_script"`
}

var qsubID = regexp.MustCompile(`^\d+(?:\[\d*\])?(?:\.\S+)?$`)

func (pbs) verdict(a answer) (string, error) {
	if a.exit == 0 {
		lines := strings.Split(strings.TrimSpace(a.stdout), "\n")
		for i := range lines {
			if line := strings.TrimSpace(lines[len(lines)-1-i]); qsubID.MatchString(line) {
				return line, nil
			}
		}
		return "", errDoubt
	}
	if a.killed() || pbsDoubt.MatchString(a.stderr) {
		return "", errDoubt
	}
	return "", refusal(a, pbsRefusals)
}

// pbsDoubt are failures after the request was sent.
var pbsDoubt = regexp.MustCompile(`(?i)timed? ?out|End of File|Protocol \(ASN|No reply|Broken pipe|Connection reset`)

var pbsSilent = regexp.MustCompile(`(?i)cannot connect to server|Couldn't connect to cluster|Connection refused|Unknown Host|` +
	`timed out|End of File|No default server|Premature end of message`)

func (pbs) cancel(ctx context.Context, sh *shell, id string) error {
	res, err := sh.login(ctx, quiet+"limit qdel "+quote(id))
	if err != nil {
		return err
	}
	// 168: it is on its way out already.
	if err := pbsProblem("qdel", res); err != nil && !errors.Is(err, errNoJob) && res.Exit != 168 {
		return err
	}
	return nil
}

// is: the server's name may be left off, and an array is its tasks too.
func (pbs) is(job api.Job, id string) bool {
	jobNumber, _, _ := strings.Cut(job.ID, ".")
	number, server, full := strings.Cut(id, ".")
	if full && job.ID != jobNumber+"."+server {
		return false
	}
	if jobNumber == number {
		return true
	}
	array, ok := strings.CutSuffix(number, "[]")
	return ok && strings.HasPrefix(jobNumber, array+"[")
}

// pbsProblem says what a command's status means, nil for success. 153 is an unknown
// job, 35 one that has finished.
func pbsProblem(command string, res Result) error {
	words := firstComplaint(res)
	switch {
	case res.Exit == 0 && !strings.Contains(string(res.Stderr), "Unknown Job Id"):
		return nil
	case res.Exit == 124 || pbsSilent.Match(res.Stderr):
		return fmt.Errorf("%w: %s", ErrNoAnswer, words)
	case res.Exit == 0, res.Exit == 153, res.Exit == 35:
		return errNoJob
	}
	return commandError(command, res.Exit, words)
}
