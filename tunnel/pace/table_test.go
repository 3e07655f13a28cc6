package pace

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// simRow is a link of the table with what moves over it.
type simRow struct {
	name     string
	mbits    float64
	queue    float64 // bytes
	rtt      time.Duration
	noise    float64 // in measured speeds
	download float64 // streams
	upload   float64
	setup    func(s *sim) // nil: nothing changes
	latency  bool         // the queue is ours alone, so requests are judged
}

// run simulates a minute.
func (r simRow) run(seed uint64, bulk, paced bool) *sim {
	s := newSim(seed, r.mbits*1e6/8, r.queue, r.rtt)
	s.noise = r.noise
	s.judged = 5 * time.Second
	if r.mbits <= 1 {
		s.judged = 25 * time.Second // a channel's window takes 17 s there
	}
	in, out := &rateControl{base: r.rtt}, &rateControl{base: r.rtt, out: true}
	in.other, out.other = out, in
	transfer := func(streams float64, c *rateControl) *simBulk {
		if !bulk || streams == 0 {
			return nil
		}
		b := &simBulk{window: streams * channelWindow}
		if paced {
			b.control = c
		}
		return b
	}
	s.download, s.upload = transfer(r.download, in), transfer(r.upload, out)
	if r.setup != nil {
		r.setup(s)
	}
	s.run(time.Minute)
	return s
}

// simRows are the links: each with a queue that is ours alone, and some on which round
// trips and speeds change for other reasons.
func simRows() (rows []simRow) {
	const ms = time.Millisecond
	for _, mbits := range []float64{1, 10, 100} {
		for _, rtt := range []time.Duration{2 * ms, 20 * ms, 100 * ms} {
			for _, queue := range []float64{256 << 10, 1 << 20, 4 << 20} {
				name := fmt.Sprintf("%v Mbit/s, %v, a queue of %v KB", mbits, rtt, queue/1024)
				rows = append(rows,
					simRow{name: name, mbits: mbits, queue: queue, rtt: rtt, download: 1, latency: true},
					simRow{name: "up, " + name, mbits: mbits, queue: queue, rtt: rtt, upload: 1, latency: mbits > 1}) // a slower queue is full before a round trip was measured
			}
		}
	}
	for _, mbits := range []float64{10, 100} {
		for _, noise := range []float64{0, 0.2, 0.4} {
			for name, r := range map[string]simRow{
				"a download":                   {download: 1, latency: true},
				"an upload":                    {upload: 1, latency: true},
				"two downloads":                {download: 2, latency: true},
				"an upload beside a download":  {download: 1, upload: 1, latency: noise == 0},
				"a neighbour who takes half":   {download: 1, setup: halfFrom20},
				"… and fills the queue":        {download: 1, setup: neighbourFrom20},
				"… of an upload":               {upload: 2, setup: halfFrom20},
				"… and fills that queue":       {upload: 2, setup: neighbourFrom20},
				"round trips of 5 or 80 ms":    {rtt: 5 * ms, download: 1, setup: func(s *sim) { jumps(s, func() time.Duration { return 50 * ms }) }},
				"… for seconds":                {rtt: 5 * ms, download: 1, setup: func(s *sim) { jumps(s, s.about(3*time.Second)) }},
				"a speed that changes by ten":  {download: 1, setup: tenTimesSlower},
				"a speed that varies by 40 %":  {download: 1, setup: varies},
				"a computer that stops":        {download: 1, setup: func(s *sim) { s.stops = 2 * time.Second }},
				"a computer that stops, an up": {upload: 1, setup: func(s *sim) { s.stops = 2 * time.Second }},
			} {
				if noise == 0.2 && !r.latency {
					continue
				}
				r.name = fmt.Sprintf("%s, %v Mbit/s, %.0f %% noise", name, mbits, 100*noise)
				r.mbits, r.noise, r.queue = mbits, noise, 1<<20
				if r.rtt == 0 {
					r.rtt = 20 * ms
				}
				rows = append(rows, r)
			}
		}
	}
	return rows
}

func halfFrom20(s *sim) {
	s.change = func(now time.Duration) {
		if now == 20*time.Second {
			s.down.rate /= 2
			s.up.rate /= 2
		}
	}
}

func neighbourFrom20(s *sim) {
	s.change = func(now time.Duration) {
		if now == 20*time.Second {
			s.late = seconds(s.down.queue / s.down.rate)
			s.down.rate /= 2
			s.up.rate /= 2
		}
	}
}

// jumps has round trips take 75 ms longer or not, by chance, for times of a length.
func jumps(s *sim, length func() time.Duration) {
	var next time.Duration
	s.change = func(now time.Duration) {
		if now >= next {
			next = now + length()
			s.late = time.Duration(s.rand.IntN(2)) * 75 * time.Millisecond
		}
	}
}

func tenTimesSlower(s *sim) {
	fast := s.down.rate
	s.change = func(now time.Duration) {
		s.down.rate = fast
		if now/(15*time.Second)%2 == 1 {
			s.down.rate = fast / 10
		}
	}
}

func varies(s *sim) {
	full := s.down.rate
	s.change = func(now time.Duration) {
		if now%(100*time.Millisecond) == 0 {
			s.down.rate = full * (1 - 0.4*s.rand.Float64())
		}
	}
}

// judge returns the row's figures, and whether they are good enough: bulk data moves at 0.9
// of what it does unlimited, and a request takes no longer than twice as on the idle link,
// at 1 Mbit/s three times.
func (r simRow) judge(seed uint64) (figures string, ok bool) {
	free, paced := r.run(seed, true, false), r.run(seed, true, true)
	ok = true
	for _, b := range []struct {
		name        string
		free, paced *simBulk
	}{{"down", free.download, paced.download}, {"up", free.upload, paced.upload}} {
		if b.free != nil {
			part := b.paced.arrived / b.free.arrived
			figures += fmt.Sprintf("%s %.2f ×, ", b.name, part)
			ok = ok && part >= 0.9
		}
	}
	figures += fmt.Sprintf("a request %v, unlimited %v", paced.p95(), free.p95())
	if !r.latency {
		return figures, ok
	}
	times, idle := time.Duration(2), r.run(seed, false, false)
	if r.mbits <= 1 {
		times = 3
	}
	return figures + fmt.Sprintf(", idle %v", idle.p95()), ok && paced.p95() <= times*idle.p95()
}

// TestNoLinkCostsADownload simulates minutes on many links. TUNCTL_SEEDS is how many of
// each; their figures are printed with -v.
func TestNoLinkCostsADownload(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv("TUNCTL_SEEDS"))
	if err != nil {
		seeds = 1
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	lanes := make(chan struct{}, 2)
	for _, r := range simRows() {
		for seed := range seeds {
			lanes <- struct{}{}
			wg.Go(func() {
				defer func() { <-lanes }()
				figures, ok := r.judge(uint64(seed) + 1)
				if t.Logf("%-52s %s", r.name, figures); !ok {
					t.Errorf("%s (seed %d): %s", r.name, seed+1, figures)
				}
			})
		}
	}
}
