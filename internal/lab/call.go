package lab

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/posixsh"
)

// call is one run of a program of the cluster, with its input and output.
type call struct {
	c              *Cluster
	args           []string // after the program's name
	env            environment
	dir            string
	stdin          io.Reader
	stdout, stderr io.Writer
}

func (c *call) printf(format string, args ...any) { fmt.Fprintf(c.stdout, format, args...) }

// failf prints an error and returns the exit status.
func (c *call) failf(status int, format string, args ...any) int {
	fmt.Fprintf(c.stderr, format+"\n", args...)
	return status
}

func (c *call) getenv(name string) string {
	value, _ := c.env.lookup(name)
	return value
}

// environment is a list of NAME=VALUE in which, as for exec, the last one counts.
type environment []string

func (e environment) lookup(name string) (string, bool) {
	for _, pair := range slices.Backward(e) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// script is a shell script that exports the environment.
func (e environment) script() []byte {
	var b strings.Builder
	for _, pair := range e {
		name, value, _ := strings.Cut(pair, "=")
		if shellName.MatchString(name) { // others, such as functions of bash, cannot be exported like this
			b.WriteString("export " + name + "=" + posixsh.Quote(value) + "\n")
		}
	}
	return []byte(b.String())
}

var shellName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

type program func(ctx context.Context, c *call) int

// programs are the programs of the batch system on this cluster's login node, and quota.
func (c *Cluster) programs() map[string]program {
	programs := slurmPrograms()
	if c.dialect == PBS {
		programs = pbsPrograms()
	}
	programs["quota"] = quota
	return programs
}
