//go:build linux

package ground

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Noise is how much other programs disturb a measurement.
type Noise struct {
	spins        []time.Duration
	total, steal int64
}

const (
	spinEvery = 10 * time.Millisecond
	spins     = 50      // before a measurement and after it, which may itself need all processors
	spinTurns = 400_000 // less than a millisecond
	// A spin that takes twice the fastest shared its processor.
	spinLimit = 2
	// One in five spins may; of the processors' time, one part in fifty may be stolen.
	spinShare, stealShare = 5, 50
)

// WatchNoise measures the machine before a measurement.
func WatchNoise() *Noise {
	n := &Noise{}
	n.spin()
	n.total, n.steal = processorTimes()
	return n
}

func (n *Noise) spin() {
	for range spins {
		began := time.Now()
		spin(spinTurns)
		n.spins = append(n.spins, time.Since(began))
		time.Sleep(spinEvery)
	}
}

var spun uint64 // so that the compiler keeps the spin

func spin(turns int) {
	x := spun | 1
	for range turns {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	spun = x
}

// Busy measures again and says why the machine was too busy to judge the measurement, or "".
// What was measured on the idle link is late if it took twice what the link takes.
func (n *Noise) Busy(idle, link time.Duration) string {
	total, steal := processorTimes()
	n.spin()
	slow, fastest := 0, slices.Min(n.spins)
	for _, s := range n.spins {
		if s > spinLimit*fastest {
			slow++
		}
	}
	switch {
	case slow*spinShare > len(n.spins):
		return fmt.Sprintf("%d %% of the spins were late", 100*slow/len(n.spins))
	case (steal-n.steal)*stealShare > total-n.total && total > n.total:
		return fmt.Sprintf("%d %% of the time was stolen", 100*(steal-n.steal)/(total-n.total))
	case idle > 2*link:
		return fmt.Sprintf("%v on the idle link of %v", idle.Round(time.Millisecond), link)
	}
	return ""
}

// processorTimes are those of all processors since the start, in ticks (proc_stat(5)).
func processorTimes() (total, steal int64) {
	const stealField = 7
	text, _ := os.ReadFile("/proc/stat") // without it, no time is stolen
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(strings.TrimPrefix(line, "cpu")) {
		ticks, _ := strconv.ParseInt(field, 10, 64)
		total += ticks
		if i == stealField {
			steal = ticks
		}
	}
	return total, steal
}

// Load runs processes that do nothing but take processor time; the returned function ends
// them.
func Load(ctx context.Context, processes int) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all []*exec.Cmd
	stop = func() {
		cancel()
		for _, cmd := range all {
			_ = cmd.Wait() // it was killed
		}
	}
	for range processes {
		cmd := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			stop()
			return nil, err
		}
		all = append(all, cmd)
	}
	return stop, nil
}
