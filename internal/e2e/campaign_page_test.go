//go:build linux

package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent"
)

var update = flag.Bool("update", false, "write "+faultPage)

const faultPage = "../../docs/faults.md"

const faultPageHead = `# Faults

What tunctl shows of each fault that befalls a session with an open page, how soon, and how it ends. A campaign on a
cluster of real parts (sshd, Slurm, name service, disk) makes every row happen, and fails where the state, the words or a
bound differ. ` + "`make campaign`" + ` runs it and writes this page; a test keeps the page and the campaign's table equal.

- **Within** and **ready again** are the longest it may take with the limits that are in force on real hosts, which are
  gentle to login nodes; what Slurm takes by itself in the lab is counted in. 15m is the wait between two tries after many
  in vain, and a new network ends it. A person who does not want to wait types ` + "`tunctl up`" + `: that tries at once.
- **Measured** are the same two as of one run with the quick limits of the practice cluster, for comparison only.
- Where a fault mends itself, connections to the page are held meanwhile, and go on. The address of the page never changes.
- ` + "`…`" + ` stands for what differs from case to case.

`

const faultPageFoot = `
A sleep is shown by stopping the agent for 36 seconds: timers stand still, the clock goes on. A clock that is set
by hours cannot be shown on one machine that others use, too; it is proven with a clock of its own by
` + "`TestAClockThatJumpsIsAWake`" + ` in tunnel and ` + "`TestALaptopThatSleptThroughAMarkIsToldWithinAMinute`" + ` in internal/agent.
`

// columns of the table; the measured ones are the last two.
var columns = []string{"Fault", "State", "Shown", "Within", "Ends", "Ready again", "Measured: shown", "ready again"}

// cells are what the code's table says of a fault.
func (f fault) cells() []string {
	limits := agent.DefaultLimits()
	state := cmp.Or(string(f.state), "–")
	if f.code != "" {
		state += " (" + string(f.code) + ")"
	}
	ends := cmp.Or(f.person, "by itself")
	if f.endsJob {
		ends += "; a new job"
	}
	again := "as the queue goes"
	if f.again != nil {
		again = short(f.again(limits))
	}
	return []string{f.name, state, "`" + f.cause + "`", short(f.within(limits)), ends, again}
}

// faultTable is the table in Markdown, with two measured cells for each fault.
func faultTable(measured func(i int) []string) string {
	var b strings.Builder
	row := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	row(columns)
	b.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
	for i, f := range faults {
		row(append(f.cells(), measured(i)...))
	}
	return b.String()
}

// short writes a length of time without zeros at its end.
func short(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func writeFaultPage(t *testing.T, table string) {
	t.Helper()
	if err := os.WriteFile(faultPage, []byte(faultPageHead+table+faultPageFoot), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestThePageOfFaultsIsTheCampaignsTable(t *testing.T) {
	page, err := os.ReadFile(faultPage)
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) == len(columns) {
			n := len(columns) - 2
			measured[strings.TrimSpace(cells[0])] = []string{cells[n], strings.TrimSpace(cells[n+1])}
		}
	}
	table := faultTable(func(i int) []string { return measured[faults[i].name] })
	if *update {
		writeFaultPage(t, table)
		return
	}
	if want := faultPageHead + table + faultPageFoot; string(page) != want {
		t.Errorf("docs/faults.md is not what the campaign's table says: run `make campaign`; it should be:\n%s", want)
	}
}
