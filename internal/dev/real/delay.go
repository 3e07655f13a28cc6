package real

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"syscall"
	"time"
)

// slowUplink is the switch's end of the delayed link.
const slowUplink = "slow"

// Delay makes each packet between laptop and cluster late, so that a round trip
// takes rtt longer, and loses some: loss is in percent. It replaces an earlier
// delay; with zeros it ends it. Live connections stay.
//
// The packets take the way through a process of ours, as kernels may lack netem.
func (c *Cluster) Delay(rtt time.Duration, loss float64) error {
	if err := c.endDelay(); err != nil {
		return err
	}
	if rtt == 0 && loss == 0 {
		return nil
	}
	cmd := command(0, "delay", c.dir, (rtt / 2).String(), strconv.FormatFloat(loss, 'g', -1, 64))
	p, err := c.spawn(cmd, nil, c.path("delay.log"))
	if err != nil {
		return fmt.Errorf("start the delay: %w", err)
	}
	c.record.Delay = p
	if err := c.save(); err != nil {
		return err
	}
	from, err := c.laptopAddr()
	if err != nil {
		return err
	}
	// Half of the link's network is all that laptops have addresses in, and beats
	// the whole of it, which the link itself has.
	half := c.plan.addr(link, 0)
	if err := c.onSwitch(fmt.Sprintf("link set %s up\nroute replace %s/25 dev %[1]s\n", slowUplink, half)); err != nil {
		return err
	}
	return onLaptop(fmt.Sprintf("link set %s up\n", c.plan.delayed()) + c.laptopRoute(from))
}

// endDelay sends packets the direct way again.
func (c *Cluster) endDelay() error {
	p := c.record.Delay
	c.record.Delay = process{}
	if !p.alive() {
		return nil
	}
	from, err := c.laptopAddr()
	if err != nil {
		return err
	}
	// The route first: the devices, and all routes through them, go with the process.
	if err := onLaptop(c.laptopRoute(from)); err != nil {
		return err
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !p.gone() {
		return errors.New("the delay does not end")
	}
	return c.save()
}

// backlog is how many packets may be on their way; more are lost, as in a full
// router.
const backlog = 20_000

// packet is one that leaves at a certain time.
type packet struct {
	leaves time.Time
	data   []byte
}

// passOn carries packets from src to dst, late and not all of them, until src
// ends.
func passOn(dst io.Writer, src io.Reader, late time.Duration, loss float64) error {
	line := make(chan packet, backlog)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range line {
			time.Sleep(time.Until(p.leaves))
			// A packet that the other side does not take is lost, as on a wire.
			_, _ = dst.Write(p.data)
		}
	}()
	defer func() { close(line); <-done }()

	buf := make([]byte, 1<<16)
	for {
		n, err := src.Read(buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if rand.Float64()*100 < loss {
			continue
		}
		p := packet{leaves: time.Now().Add(late), data: append([]byte(nil), buf[:n]...)}
		select {
		case line <- p:
		default:
		}
	}
}
