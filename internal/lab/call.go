package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
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

type program func(ctx context.Context, c *call) int

// programs are the programs of the batch system on this cluster's login node.
func (c *Cluster) programs() map[string]program {
	if c.dialect == PBS {
		return pbsPrograms()
	}
	return slurmPrograms()
}
