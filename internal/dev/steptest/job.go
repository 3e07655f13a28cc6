package steptest

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Job is a job on a node in which relays run that outlive the way to them. They follow the rules of
// the relay, on the clock of the test. Its windows are endless.
type Job struct {
	// Handle is a program inside the job, which ends with ctx. It returns its exit status.
	Handle func(ctx context.Context, command string, output io.Writer) uint32

	mu     sync.Mutex
	ended  bool
	relays map[string]*lasting // by socket
}

// options are what the client tells a relay, or a connector.
type options struct {
	Mark, Socket, Secret string
	Silence, Hold        float64
	Attempt              uint64
	Received             *uint64 // of a client that comes back
	End                  bool
}

// Run is a process on the node that runs step.Command, until the way to it ends. Inside says that it is part
// of the job.
func (j *Job) Run(rw io.ReadWriteCloser, inside bool) {
	in := bufio.NewReader(rw)
	line, _ := in.ReadString('\n')
	size, err := strconv.Atoi(strings.TrimSpace(line))
	if err == nil {
		_, err = in.Discard(size)
	}
	var o options
	if err == nil {
		line, _ = in.ReadString('\n')
		err = json.Unmarshal([]byte(line), &o)
	}
	if err != nil {
		return
	}
	j.mu.Lock()
	r := j.relays[o.Socket]
	if o.Received == nil && !j.ended {
		r = newLasting(j, o, inside)
		if j.relays == nil {
			j.relays = map[string]*lasting{}
		}
		j.relays[o.Socket] = r
	}
	j.mu.Unlock()
	if r == nil || r.over() {
		_, _ = io.WriteString(rw, o.Mark+"\n{\"gone\": true}\n")
		return
	}
	r.serve(rw, in, o)
}

// End ends the job, and everything in it.
func (j *Job) End() {
	j.mu.Lock()
	j.ended = true
	relays := j.relays
	j.mu.Unlock()
	for _, r := range relays {
		r.mu.Lock()
		r.endLocked()
		r.mu.Unlock()
	}
}

// Running are the sockets of the relays that run.
func (j *Job) Running() (sockets []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for socket, r := range j.relays {
		if !r.over() {
			sockets = append(sockets, socket)
		}
	}
	return sockets
}

// lasting is a relay that outlives the way to it.
type lasting struct {
	job     *Job
	secret  string
	silence time.Duration
	hold    time.Duration

	mu       sync.Mutex
	changed  *sync.Cond
	way      io.Writer // nil: it was lost
	kept     []byte    // not acknowledged
	acked    uint64
	sent     uint64
	owed     uint64 // up to where it ends what was sent on channels that this side closed
	received uint64
	inbox    []byte
	attempt  uint64
	heard    time.Time
	channels map[uint32]context.CancelFunc
	ended    bool
	timer    *time.Timer
}

func newLasting(j *Job, o options, inside bool) *lasting {
	r := &lasting{job: j, secret: o.Secret, silence: seconds(o.Silence), hold: seconds(o.Silence), channels: map[uint32]context.CancelFunc{}, heard: time.Now()}
	if inside {
		r.hold = seconds(o.Hold)
	}
	r.changed = sync.NewCond(&r.mu)
	r.timer = time.AfterFunc(r.silence, r.expire)
	r.sendLocked(0, hello, []byte(`{"node":"cn01","inside":`+strconv.FormatBool(inside)+`,"environ":"job"}`))
	return r
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (r *lasting) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// serve carries frames over a way, to its end.
func (r *lasting) serve(rw io.ReadWriteCloser, in io.Reader, o options) {
	r.mu.Lock()
	if o.Received != nil && (o.Secret != r.secret || !o.End && o.Attempt <= r.attempt || r.ended) {
		r.mu.Unlock()
		return
	}
	answer := o.Mark + "\n"
	if o.End {
		answer += "{}\n"
		r.endLocked()
	} else if o.Received != nil {
		r.attempt = o.Attempt
		r.acknowledgeLocked(*o.Received)
		answer += `{"received":` + strconv.FormatUint(r.received, 10) + "}\n"
	}
	r.way, r.sent, r.heard = rw, r.acked, time.Now()
	r.mu.Unlock()
	if _, err := io.WriteString(rw, answer); err == nil && !o.End {
		go r.send(rw)
		r.receive(rw, in)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lostLocked(rw)
}

// send writes to a way until it is lost.
func (r *lasting) send(way io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.way == way {
		unsent := r.kept[r.sent-r.acked:]
		if len(unsent) == 0 {
			r.changed.Wait()
			continue
		}
		r.sent += uint64(len(unsent))
		r.mu.Unlock()
		_, err := way.Write(unsent)
		r.mu.Lock()
		if err != nil {
			r.lostLocked(way)
		}
	}
}

// receive reads from a way until it is lost.
func (r *lasting) receive(way io.Writer, in io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		r.mu.Lock()
		if r.way != way || err != nil {
			r.mu.Unlock()
			return
		}
		r.heard = time.Now()
		r.received += uint64(n)
		r.inbox = append(r.inbox, buf[:n]...)
		for len(r.inbox) >= 9 && len(r.inbox) >= 9+int(binary.BigEndian.Uint32(r.inbox[5:])) {
			size := 9 + int(binary.BigEndian.Uint32(r.inbox[5:]))
			r.handleLocked(binary.BigEndian.Uint32(r.inbox), r.inbox[4], r.inbox[9:size])
			r.inbox = r.inbox[size:]
		}
		r.mu.Unlock()
	}
}

func (r *lasting) handleLocked(channel uint32, kind byte, payload []byte) {
	switch kind {
	case ping:
		r.sendLocked(0, ping, nil)
		r.sendLocked(0, ack, binary.BigEndian.AppendUint64(nil, r.received))
	case ack:
		r.acknowledgeLocked(binary.BigEndian.Uint64(payload))
	case end:
		r.endLocked()
	case open:
		r.openLocked(channel, payload)
	case closes:
		if cancel := r.channels[channel]; cancel != nil {
			cancel()
			delete(r.channels, channel)
		}
	}
}

func (r *lasting) openLocked(channel uint32, payload []byte) {
	var request Request
	_ = json.Unmarshal(payload, &request)
	ctx, cancel := context.WithCancel(context.Background())
	r.channels[channel] = cancel
	r.sendLocked(channel, opened, nil)
	go func() {
		defer cancel()
		status := r.job.Handle(ctx, string(request.Command), output{r, channel})
		r.mu.Lock()
		defer r.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		r.sendLocked(channel, eof, nil)
		r.sendLocked(channel, exit, []byte(`{"status":`+strconv.Itoa(int(status))+`}`))
		r.sendLocked(channel, closes, nil)
		r.owed = r.acked + uint64(len(r.kept))
		delete(r.channels, channel)
	}()
}

// output is what a program prints.
type output struct {
	r       *lasting
	channel uint32
}

// Write implements io.Writer.
func (o output) Write(p []byte) (int, error) {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	o.r.sendLocked(o.channel, data, p)
	return len(p), nil
}

func (r *lasting) sendLocked(channel uint32, kind byte, payload []byte) {
	r.kept = binary.BigEndian.AppendUint32(r.kept, channel)
	r.kept = append(r.kept, kind)
	r.kept = binary.BigEndian.AppendUint32(r.kept, uint32(len(payload)))
	r.kept = append(r.kept, payload...)
	r.changed.Broadcast()
}

func (r *lasting) acknowledgeLocked(total uint64) {
	if total > r.acked {
		r.kept = r.kept[total-r.acked:]
		r.acked, r.sent = total, max(r.sent, total)
	}
}

func (r *lasting) neededLocked() bool { return len(r.channels) > 0 || r.acked < r.owed }

// lostLocked takes in that a way was lost.
func (r *lasting) lostLocked(way io.Writer) {
	if r.way != way {
		return
	}
	r.way = nil
	r.changed.Broadcast()
	if !r.neededLocked() {
		r.endLocked()
	}
}

// expire ends the relay if its client is gone.
func (r *lasting) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.silence
	if r.neededLocked() {
		limit = r.hold
	}
	if left := limit - time.Since(r.heard); left > 0 {
		r.timer.Reset(min(left, r.silence))
		return
	}
	r.endLocked()
}

func (r *lasting) endLocked() {
	if r.ended {
		return
	}
	r.ended = true
	r.timer.Stop()
	for _, cancel := range r.channels {
		cancel()
	}
	if r.way != nil {
		r.sendLocked(0, end, nil)
		way, last := r.way, r.kept[r.sent-r.acked:]
		go func() {
			_, _ = way.Write(last)
			if c, ok := way.(io.Closer); ok {
				_ = c.Close()
			}
		}()
	}
	r.way = nil
	r.changed.Broadcast()
}
