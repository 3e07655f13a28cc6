package api

import (
	"fmt"
	"testing"
	"time"
)

func TestWhatTwoNodesHoldIsSaidAsOne(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(int64(60*minute), 0) }
	waits := func(since, streams int) Held { return Held{Since: at(since), Streams: streams, Waiting: 10 * streams} }
	continued := func(since, until int) Held { return Held{Since: at(since), Until: at(until), Streams: 1} }
	lost := func(since, until int) Held { return Held{Since: at(since), Until: at(until), Lost: 2, Cause: "why"} }
	const loss = "2 streams inside the job ended after 3 min without a connection: why"
	for name, tt := range map[string]struct {
		a, b Held
		want string // by minutes: what is said of it, and of an earlier loss
	}{
		"nothing":                               {Held{}, Held{}, " since 0"},
		"one":                                   {waits(5, 2), Held{}, "held: 2 streams, 20 B waiting since 5"},
		"both wait":                             {waits(5, 2), waits(3, 1), "held: 3 streams, 30 B waiting since 3"},
		"one waits":                             {continued(1, 2), waits(5, 1), "held: 1 stream, 10 B waiting since 5"},
		"one waits, and the other lost":         {lost(4, 7), waits(5, 1), "held: 1 stream, 10 B waiting since 5, earlier " + loss},
		"one after the other":                   {continued(5, 7), continued(1, 3), "continued after 2 min; nothing was lost since 5"},
		"at the same time":                      {continued(5, 7), continued(6, 9), "continued after 4 min; nothing was lost since 5"},
		"at the same time, and one has lost":    {continued(5, 7), lost(5, 8), loss + " since 5"},
		"an earlier loss is not hidden":         {lost(1, 4), continued(5, 7), "continued after 2 min; nothing was lost since 5, earlier " + loss},
		"of two earlier losses the last counts": {Held{Since: at(9), Streams: 1, Earlier: &Held{Until: at(1)}}, lost(1, 4), "held: 1 stream, 0 B waiting since 9, earlier " + loss},
	} {
		for _, h := range []Held{tt.a.Merge(tt.b), tt.b.Merge(tt.a)} {
			got := h.OverText()
			if !h.IsOver() {
				got = h.HeldText(func(n int64) string { return fmt.Sprint(n, " B") })
			}
			if h.Since.IsZero() {
				h.Since = at(0)
			}
			if got += fmt.Sprint(" since ", h.Since.Unix()/60); h.Earlier != nil {
				got += ", earlier " + h.Earlier.OverText()
			}
			if got != tt.want {
				t.Errorf("%s: %q, want %q", name, got, tt.want)
			}
		}
	}
}
