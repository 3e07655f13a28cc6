package jobwatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// NodeNames asks a host for the other names of a compute node, and its addresses:
// the name that a job knows its node by may mean nothing elsewhere.
func NodeNames(ctx context.Context, r Runner, node string) ([]string, error) {
	// What is not installed prints nothing.
	script := "n=" + quote(node) + "\n" + `getent ahosts "$n" 2>/dev/null | awk '{print $1; if ($3) print $3}'` + "\n"
	for _, k := range schedulerKinds {
		script += k.nodeNames + "\n"
	}
	res, err := readShell(r).login(ctx, script+":")
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
