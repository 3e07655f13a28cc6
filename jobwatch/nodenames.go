package jobwatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// nodeNames prints what a node is called: by the name service of the host, by
// Slurm, and by PBS. What is not there says nothing.
const nodeNames = `getent ahosts "$n" 2>/dev/null | awk '{print $1; if ($3) print $3}'
scontrol -o show node "$n" 2>/dev/null | tr ' ' '\n' | sed -n 's/^NodeAddr=//p; s/^NodeHostName=//p'
pbsnodes -v "$n" 2>/dev/null | sed -n 's/^ *Mom = //p'
:`

// NodeNames asks a host for the other names of a compute node, and its addresses:
// the name that a job knows its node by may mean nothing elsewhere.
func NodeNames(ctx context.Context, r Runner, node string) ([]string, error) {
	res, err := readShell(r).login(ctx, "n="+quote(node)+"\n"+nodeNames)
	if err != nil {
		return nil, fmt.Errorf("names of node %q: %w", node, err)
	}
	var names []string
	for name := range strings.FieldsSeq(string(res.Stdout)) {
		if name != node && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}
