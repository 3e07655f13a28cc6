package show

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

// Free has a row for each partition of a host, and one for all of its nodes where partitions are not told
// apart. What is a guess begins with "~".
func Free(f api.Free) *term.Table {
	t := &term.Table{
		Header: []string{"PARTITION", "IDLE NODES", "FREE CPUS", "FREE GPUS", "LONGEST", "WAITING"},
		Whole:  []string{"PARTITION", "FREE GPUS"}, Optional: []string{"FREE CPUS"},
	}
	for _, p := range f.Partitions {
		longest := "no limit"
		if p.LimitSeconds > 0 {
			longest = api.DurationText(time.Duration(p.LimitSeconds) * time.Second)
		}
		addFree(t, p.Name, longest, p.PartitionUsage, p.FreeTypes)
	}
	if f.Cluster != (api.PartitionUsage{}) {
		addFree(t, "(all)", "-", f.Cluster, nil)
	}
	return t
}

func addFree(t *term.Table, name, longest string, u api.PartitionUsage, byType map[string]int) {
	number := func(n int, known bool) string {
		if !known {
			return "-"
		}
		if u.Guess {
			return "~" + strconv.Itoa(n)
		}
		return strconv.Itoa(n)
	}
	var gpus []string
	for _, kind := range slices.Sorted(maps.Keys(byType)) {
		gpus = append(gpus, number(byType[kind], true)+" "+kind)
	}
	if len(gpus) == 0 {
		gpus = []string{number(u.FreeGPUs, u.GPUs > 0)}
	}
	colour := ""
	if u.FreeGPUs > 0 || u.GPUs == 0 && u.FreeCPUs > 0 {
		colour = term.Green
	}
	t.Add(nil, term.Cell{Text: name, Colour: term.Bold}, term.Cell{Text: number(u.IdleNodes, u.CPUs > 0)}, term.Cell{Text: number(u.FreeCPUs, u.CPUs > 0)},
		term.Cell{Text: strings.Join(gpus, ", "), Colour: colour}, term.Cell{Text: longest}, term.Cell{Text: fmt.Sprint(u.Waiting)})
}
