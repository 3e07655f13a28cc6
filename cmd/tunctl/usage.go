package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
)

const (
	// usageWait is how long a status waits for a measurement.
	usageWait = 3 * time.Second
	// usageFresh is how old one may be.
	usageFresh = 15 * time.Second
	// idleShown is how long a job must be idle before that is worth a word.
	idleShown = time.Minute
)

// withUsage adds what the job of the session uses that the argument names, if there is one.
// A script may ask for it often, so that JSON has what is known, unless it is to be new.
func (inv *invocation) withUsage(ctx context.Context, st api.Status) api.Status {
	usage := inv.measure
	if inv.Bool("json") && !inv.Bool("refresh") {
		usage = inv.lastUsage
	}
	for i, s := range st.Sessions {
		if s.Name == inv.Args().First() && st.Agent != nil {
			st.Sessions[i].Usage = usage(ctx, s)
		}
	}
	return st
}

// lastUsage is the newest that is known without measuring; nil if nothing is.
func (inv *invocation) lastUsage(ctx context.Context, s api.Session) (last *api.Usage) {
	_ = inv.client.Usage(ctx, s.Name, true, func(u api.Usage) { last = &u }) // without an agent nothing is known
	return last
}

// measure is what the job of a session uses now; nil if it does not run, or the agent
// cannot tell in time.
func (inv *invocation) measure(ctx context.Context, s api.Session) *api.Usage {
	if s.Job == nil || s.Job.State != api.JobRunning || s.State != api.SessionReady && s.State != api.SessionStarting {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, usageWait)
	defer cancel()
	inv.Draw("measuring…")
	defer inv.Draw("")
	var found *api.Usage
	_ = inv.client.Usage(ctx, s.Name, false, func(u api.Usage) { // without an agent nothing is measured
		if time.Since(u.Time) > usageFresh || u.Source == "" && u.Problem == "" {
			return
		}
		found = &u
		if u.CPUPercent != nil || u.Problem != "" {
			cancel()
		}
	})
	return found
}

// usageNotes says what a job uses.
func usageNotes(u *api.Usage, now time.Time) []string {
	switch {
	case u == nil:
		return nil
	case u.Problem != "":
		return []string{"! what the job uses is not known: " + u.Problem}
	}
	var parts []string
	if u.CPUPercent != nil && u.CPUs > 0 {
		parts = append(parts, percentText(u.CPUPercent)+" of "+countText(u.CPUs, "CPU"))
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
		return bytesText(used)
	}
	return bytesText(used) + " of " + bytesText(limit)
}
