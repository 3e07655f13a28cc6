// Package usage measures what a job uses: the program that measures inside the job and what it
// prints, how often it is asked, whether the job is idle, and who looks. It is given a [Source],
// and knows no host and no scheduler's commands.
package usage

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/gateway"
	"tunctl/internal/posixsh"
)

//go:embed measure.sh
var program string

// command is the command that measures inside a job; its last word is what process lists
// show. It reads what input returns, and then prints one reading for each line
// that follows, until its input ends.
const command = posixsh.Line + " tunctl-usage"

// input is the program for a job, for command. The job is the scheduler's id, or of a
// host without a scheduler the tag.
func input(job string) string {
	text := "job=" + posixsh.Quote(job) + "\n" + program
	return fmt.Sprintf("eval \"$(head -c %d)\"\n%s", len(text), text)
}

// endLine is the line after each reading.
const endLine = "."

// Reading is what a job has used until one moment.
type Reading struct {
	Clock       time.Duration // of the node, since some moment
	CPU         time.Duration // time of CPUs that the job has used in all; negative: not known
	CPUs        int           // of the job; 0: not known
	Memory      int64         // bytes; 0: not known
	MemoryLimit int64         // of the job, else of the node; 0: not known
	GPUs        []api.GPUUsage
}

// errNothing is for a system on which nothing can be measured.
var errNothing = errors.New("nothing can be measured there: it has neither cgroups nor /proc")

// parse reads what the program prints, without the last line.
func parse(text string) (Reading, error) {
	r := Reading{CPU: -1}
	node, granted := int64(0), 0
	var nvidia, rocm []string
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "clock":
			r.Clock = seconds(value)
		case "cpu":
			if us, err := strconv.ParseFloat(value, 64); err == nil {
				r.CPU = time.Duration(us * float64(time.Microsecond))
			}
		case "cpus":
			r.CPUs = countCPUs(value)
		case "granted":
			granted = countCPUs("#" + value)
		case "mem":
			r.Memory = byteCount(value)
		case "limit":
			r.MemoryLimit = byteCount(value)
		case "node":
			node = byteCount(value)
		case "nvidia":
			nvidia = append(nvidia, value)
		case "rocm":
			rocm = append(rocm, value)
		}
	}
	if r.Clock == 0 || r.CPU < 0 && r.Memory == 0 {
		return Reading{}, errNothing
	}
	if granted > 0 && granted < r.CPUs {
		r.CPUs = granted
	}
	if r.MemoryLimit == 0 || node > 0 && r.MemoryLimit > node { // a cgroup without a limit has a huge one
		r.MemoryLimit = node
	}
	r.GPUs = append(nvidiaGPUs(nvidia), rocmGPUs(rocm)...)
	return r, nil
}

// Percent is how much of its CPUs the job has used since an earlier reading: 100 is all of
// them. It is not known without the earlier reading, or if that is of another run.
func (r Reading) Percent(since Reading) (percent float64, known bool) {
	span := r.Clock - since.Clock
	if r.CPUs == 0 || r.CPU < 0 || since.CPU < 0 || since.Clock == 0 || span <= 0 {
		return 0, false
	}
	used := max(0, r.CPU-since.CPU) // processes that have ended may take their time with them
	return min(100, 100*used.Seconds()/span.Seconds()/float64(r.CPUs)), true
}

func seconds(text string) time.Duration {
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || s < 0 {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// byteCount reads a number of bytes; "max" is no limit.
func byteCount(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(0, n)
}

// countCPUs counts a list such as 0-3,8; a lone number with a leading # is the count.
func countCPUs(list string) int {
	if count, ok := strings.CutPrefix(list, "#"); ok {
		n, _ := strconv.Atoi(count)
		return max(0, n)
	}
	total := 0
	for part := range strings.SplitSeq(list, ",") {
		var first, last int
		n, _ := fmt.Sscanf(part, "%d-%d", &first, &last)
		if n == 1 && !strings.Contains(part, "-") {
			last = first
		}
		if n == 0 || last < first {
			return 0
		}
		total += last - first + 1
	}
	return total
}

// nvidiaGPUs reads lines of nvidia-smi: name, percent, MiB used, MiB in all. A value may
// be words in brackets, as with MIG.
func nvidiaGPUs(lines []string) []api.GPUUsage {
	var gpus []api.GPUUsage
	for _, line := range lines {
		f := strings.Split(line, ",")
		if len(f) != 4 {
			continue // words about an error
		}
		gpus = append(gpus, api.GPUUsage{
			Name: api.Sanitize(strings.TrimSpace(f[0])), Percent: percent(f[1]),
			Memory: byteCount(strings.TrimSpace(f[2])) << 20, MemoryTotal: byteCount(strings.TrimSpace(f[3])) << 20,
		})
	}
	return gpus
}

// rocmGPUs reads the table of rocm-smi, whose columns differ between versions.
func rocmGPUs(lines []string) []api.GPUUsage {
	in := csv.NewReader(strings.NewReader(strings.Join(lines, "\n")))
	in.FieldsPerRecord, in.LazyQuotes = -1, true
	rows, _ := in.ReadAll() // what cannot be read is left out
	var header []string
	var gpus []api.GPUUsage
	for _, row := range rows {
		if row[0] == "device" {
			header = row
			continue
		}
		if header == nil || !strings.HasPrefix(row[0], "card") {
			continue
		}
		cells := map[string]string{}
		for i, cell := range row[:min(len(row), len(header))] {
			cells[strings.ToLower(header[i])] = strings.TrimSpace(cell)
		}
		gpus = append(gpus, api.GPUUsage{
			Name: api.Sanitize(cmp.Or(cells["card series"], cells["card model"])), Percent: percent(cells["gpu use (%)"]),
			Memory: byteCount(cells["vram total used memory (b)"]), MemoryTotal: byteCount(cells["vram total memory (b)"]),
		})
	}
	return gpus
}

func percent(text string) *float64 {
	p, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(p >= 0 && p <= 100) { // it may be NaN
		return nil
	}
	return &p
}

// sampler is the program that measures inside a job. It prints a reading when it is asked,
// and ends with its channel.
type sampler struct {
	channel ssh.Channel
	out     *bufio.Reader // what it prints
}

const (
	// samplerStart bounds the start of the program, which may need a job step first.
	samplerStart = 45 * time.Second
	// samplerRead bounds one reading: nvidia-smi can take seconds.
	samplerRead = 30 * time.Second
	// maxReading is how long what the program prints may be.
	maxReading = 64 << 10
)

var (
	errSamplerEnded = errors.New("the program that measures the job has ended")
	errSamplerSlow  = errors.New("the node does not respond in time")
)

// startSampler starts the program on a machine.
func startSampler(ctx context.Context, m gateway.Machine, job string) (*sampler, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, samplerStart, errSamplerSlow)
	defer cancel()
	ch, requests, err := m.OpenChannel(ctx, "session", nil)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	go ssh.DiscardRequests(requests) // ends with the channel
	s := &sampler{channel: ch, out: bufio.NewReader(ch)}
	_, err = s.await(ctx, func() (r Reading, err error) {
		if _, err := ch.SendRequest("env", false, ssh.Marshal(struct{ Name, Value string }{"TUNCTL_METER", "1"})); err != nil { // see step.Meter
			return r, err
		}
		ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
		if err == nil && !ok {
			err = errors.New("no command may be run there")
		}
		if err == nil {
			_, err = io.WriteString(ch, input(job))
		}
		return r, err
	})
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// await returns what do returns, which ends with the channel. A node that does not respond
// must not hold the meter: if ctx ends first, the channel is closed and do left to its end.
func (s *sampler) await(ctx context.Context, do func() (Reading, error)) (Reading, error) {
	type result struct {
		reading Reading
		err     error
	}
	results := make(chan result, 1)
	go func() {
		r, err := do()
		results <- result{r, err}
	}()
	select {
	case r := <-results:
		return r.reading, r.err
	case <-ctx.Done():
		s.close()
		return Reading{}, context.Cause(ctx)
	}
}

// read has the program measure once. After an error the program is of no use.
func (s *sampler) read(ctx context.Context) (Reading, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, samplerRead, errSamplerSlow)
	defer cancel()
	return s.await(ctx, func() (Reading, error) {
		_, err := io.WriteString(s.channel, "\n")
		for text := ""; err == nil; {
			var line string
			if line, err = api.ReadLine(s.out, maxReading-len(text)); err == nil && strings.TrimSpace(line) == endLine {
				return parse(text)
			}
			text += line
		}
		return Reading{}, errSamplerEnded
	})
}

// close ends the program. It waits for nobody: the node may not respond.
func (s *sampler) close() { _ = s.channel.Close() }
