package show

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
	"tunctl/internal/words"
)

// UsageNotes says what a job uses, in rounded numbers.
func UsageNotes(u *api.Usage, now time.Time) []string {
	switch {
	case u == nil:
		return nil
	case u.Problem != "":
		return []string{"! what the job uses is not known: " + u.Problem}
	}
	var parts []string
	if u.CPUPercent != nil && u.CPUs > 0 {
		parts = append(parts, percentText(u.CPUPercent)+" of "+words.Count(u.CPUs, "CPU"))
	}
	if u.Memory > 0 {
		parts = append(parts, "memory "+memoryText(u.Memory, u.MemoryLimit))
	}
	if u.Source == api.UsageScheduler {
		parts = append(parts, "as the scheduler has counted")
	}
	var notes []string
	if len(parts) > 0 {
		notes = append(notes, strings.Join(parts, ", "))
	}
	for i, g := range u.GPUs {
		gpu := fmt.Sprintf("GPU %d", i)
		if g.Name != "" {
			gpu += " (" + g.Name + ")"
		}
		gpu += " " + percentText(g.Percent)
		if g.MemoryTotal > 0 {
			gpu += ", memory " + memoryText(g.Memory, g.MemoryTotal)
		}
		notes = append(notes, gpu)
	}
	if idle := idleText(u.IdleSince, now); idle != "" {
		notes = append(notes, fmt.Sprintf("idle since %s (%s)", api.ClockText(u.IdleSince, now), idle))
	}
	return notes
}

// idleShown is how long a job must be idle before that is worth a word.
const idleShown = time.Minute

// idleText is how long a job is idle; "" if it is not, or not for long.
func idleText(since, now time.Time) string {
	if idle := now.Sub(since); !since.IsZero() && idle >= idleShown {
		return api.DurationText(idle)
	}
	return ""
}

func percentText(p *float64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", *p)
}

func memoryText(used, limit int64) string {
	if limit == 0 {
		return words.Bytes(used)
	}
	return words.Bytes(used) + " of " + words.Bytes(limit)
}

// Use has what the jobs of sessions use, as far as it is known. The measurements are those
// of the last hour, by session, the oldest first.
func Use(sessions []api.Session, usage map[string][]api.Usage, now time.Time) *term.Table {
	t := &term.Table{
		Header: []string{"SESSION", "CPU", "MEMORY", "GPU", "GPU MEMORY", "IDLE", "LAST HOUR"},
		Whole:  []string{"SESSION", "CPU", "MEMORY", "GPU"}, Optional: []string{"LAST HOUR"},
	}
	for _, s := range sessions {
		list := usage[s.Name]
		last := api.Usage{}
		if len(list) > 0 {
			last = list[len(list)-1]
		}
		var notes []string
		switch {
		case last.Problem != "":
			notes = []string{last.Problem}
		case len(list) == 0:
			notes = []string{"waiting for the first measurement"}
		case last.Source == api.UsageScheduler:
			notes = []string{"from the scheduler's accounting, measured at " + api.ClockText(last.Time, now)}
		}
		gpu, gpuMemory := gpuTexts(last.GPUs)
		t.Add(notes, term.Cell{Text: s.Name, Colour: term.Bold}, term.Cell{Text: percentText(last.CPUPercent)}, term.Cell{Text: memoryCell(last.Memory, last.MemoryLimit)},
			term.Cell{Text: gpu}, term.Cell{Text: gpuMemory}, term.Cell{Text: orDash(idleText(last.IdleSince, now)), Colour: term.Yellow}, term.Cell{Text: sparkline(list, now), Colour: term.Grey})
	}
	return t
}

// gpuTexts are the use and the memory of all GPUs of a job.
func gpuTexts(gpus []api.GPUUsage) (use, memory string) {
	var uses []string
	var part, whole int64
	for _, g := range gpus {
		uses = append(uses, percentText(g.Percent))
		part, whole = part+g.Memory, whole+g.MemoryTotal
	}
	return orDash(strings.Join(uses, ", ")), memoryCell(part, whole)
}

func memoryCell(used, limit int64) string {
	if used == 0 {
		return "-"
	}
	return memoryText(used, limit)
}

// sparkline shows the busiest of CPU and GPU over the last hour, in bars of three minutes;
// a space is a time without a measurement.
func sparkline(list []api.Usage, now time.Time) string {
	const bars, each = 20, 3 * time.Minute
	levels := []rune("▁▂▃▄▅▆▇█")
	line := []rune(strings.Repeat(" ", bars))
	most := make([]float64, bars)
	for _, u := range list {
		i := bars - 1 - int(now.Sub(u.Time)/each)
		busy := busiest(u)
		if i < 0 || i >= bars || busy < 0 {
			continue
		}
		most[i] = max(most[i], busy)
		line[i] = levels[min(int(most[i]/100*float64(len(levels))), len(levels)-1)]
	}
	return strings.TrimLeft(string(line), " ")
}

// busiest is the highest percentage of a measurement, -1 if it has none.
func busiest(u api.Usage) float64 {
	most := -1.0
	if u.CPUPercent != nil {
		most = *u.CPUPercent
	}
	for _, g := range u.GPUs {
		if g.Percent != nil {
			most = max(most, *g.Percent)
		}
	}
	return most
}

// Balances has a row per balance, with how full it is.
func Balances(balances []api.Balance) *term.Table {
	t := &term.Table{Header: []string{"BALANCE", "USED", "OF", "FULL"}, Whole: []string{"USED", "OF"}}
	for _, b := range balances {
		used, of, bar, colour := amountText(b.Used, b.Unit), "-", "-", ""
		if b.Total > 0 {
			of = amountText(b.Total, b.Unit)
			bar, colour = quotaBar(b.Used/b.Total), quotaColour(b.Used/b.Total)
		}
		t.Add(nil, term.Cell{Text: b.Name, Colour: term.Bold}, term.Cell{Text: used}, term.Cell{Text: of}, term.Cell{Text: bar, Colour: colour})
	}
	return t
}

// Balance is a balance in words: "12.0 of 50.0 GiB".
func Balance(b api.Balance) string {
	if b.Total == 0 {
		return amountText(b.Used, b.Unit)
	}
	return strings.TrimSuffix(amountText(b.Used, b.Unit), " "+b.Unit) + " of " + amountText(b.Total, b.Unit)
}

// amountText writes a number with spaces between its thousands: "1 160 939 files", "26.61 SU", "12.0 GB".
func amountText(n float64, unit string) string {
	text := strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64)
	if strings.HasSuffix(unit, "B") && math.Abs(n) >= 0.1 {
		text = strconv.FormatFloat(n, 'f', 1, 64)
	}
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && len(whole) > 4; i -= 3 {
		whole = whole[:i] + " " + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return strings.TrimSuffix(whole+" "+unit, " ")
}

const quotaBarWidth = 10

// quotaBar is a bar with a percentage. It is full only if the quota is.
func quotaBar(part float64) string {
	filled := min(max(int(part*quotaBarWidth), 0), quotaBarWidth)
	return strings.Repeat("█", filled) + strings.Repeat("░", quotaBarWidth-filled) + fmt.Sprintf(" %3.0f%%", math.Floor(part*100))
}

// quotaColour warns before a quota is used up.
func quotaColour(part float64) string {
	switch {
	case part >= 0.95:
		return term.Red
	case part >= 0.8:
		return term.Yellow
	}
	return term.Green
}

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
		addFree(t, p.Name, longest, p.PartitionUsage, p.FreeTypes, f.Cluster.Waiting == 0)
	}
	if f.Cluster != (api.PartitionUsage{}) {
		addFree(t, "(all)", "-", f.Cluster, nil, f.Cluster.Waiting > 0)
	}
	return t
}

// addFree adds a row. Who waits is counted by partition or, as in Grid Engine, for all of them.
func addFree(t *term.Table, name, longest string, u api.PartitionUsage, byType map[string]int, countsWaiting bool) {
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
		term.Cell{Text: strings.Join(gpus, ", "), Colour: colour}, term.Cell{Text: longest}, term.Cell{Text: number(u.Waiting, countsWaiting)})
}
