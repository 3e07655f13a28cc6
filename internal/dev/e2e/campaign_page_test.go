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

const faultPage = "../../../docs/faults.md"

const faultPageHead = `# Faults

What tunctl shows when something fails while a page is open, how soon, and how the session recovers. A test on a cluster of
real parts (sshd, Slurm, name service, disk) causes every fault in this table, and fails if the state, the message or a time
limit differs. ` + "`make campaign`" + ` runs it and writes this page; another test compares the page with the table in the code.

- **Within** and **Ready again** are upper bounds with the limits used on real hosts, which protect login nodes; they include
  the time that Slurm needs in the lab. 15m is the longest pause between two attempts; a new network ends it, and
  ` + "`tunctl up`" + ` tries at once. 1m1s is the time between two logins, or the longest pause while somebody waits; after an
  outage of less than two minutes, with the last login over a minute ago, it is less than 20 s.
- **Measured** are the same two times of one run with the short limits of the practice cluster, for comparison only.
- Where a session recovers automatically, new connections to the page are held until it is ready. Open ones continue with nothing
  missing when the network was only silent or gone and the laptop has the same address again: TCP keeps them for about 15 minutes
  while data is on its way, and longer if none is. If the address is another one, or the host's end was killed, they end, what was on
  its way is lost, and the page reconnects. The page's address never changes.
- ` + "`…`" + ` stands for names, numbers and times.

`

const faultPageFoot = `
Sleep is simulated by stopping the agent for 36 seconds: its timers stop while the clock continues. Clock changes of hours are
tested with a simulated clock, by ` + "`TestAClockThatJumpsIsAWake`" + ` in tunnel and
` + "`TestALaptopThatSleptThroughAMarkIsToldWithinAMinute`" + ` in internal/agent.
`

// columns of the table; the measured ones are the last two.
var columns = []string{"Fault", "State", "Shown", "Within", "Recovers", "Ready again", "Measured: shown", "ready again"}

// cells are what the code's table says of a fault.
func (f fault) cells() []string {
	limits := agent.DefaultLimits()
	state := cmp.Or(string(f.state), "–")
	if f.code != "" {
		state += " (" + string(f.code) + ")"
	}
	ends := cmp.Or(f.person, "automatically")
	if f.endsJob {
		ends += "; a new job"
	}
	again := "depends on the queue"
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
