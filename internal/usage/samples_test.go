package usage

import (
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestSamplesKept(t *testing.T) {
	var all []api.Usage
	start := time.Now()
	for i := range 2 * 3600 {
		all = addSample(all, api.Usage{Time: start.Add(time.Duration(i) * time.Second)})
	}
	if n := len(all); n < 170 || n > 182 {
		t.Errorf("%d samples of an hour", n)
	}
	if last := all[len(all)-1].Time; !last.Equal(start.Add((2*3600 - 1) * time.Second)) {
		t.Errorf("the last sample is of %v", last)
	}
	if span := all[len(all)-1].Time.Sub(all[0].Time); span > kept || span < kept-time.Minute {
		t.Errorf("they are of %v", span)
	}
}
