package pbs

import (
	"testing"

	"tunctl/internal/api"
)

func TestUsage(t *testing.T) {
	got := readUsage([]string{
		"vnode           state           njobs   run   susp      f/t        f/t     f/t   f/t   jobs",
		"x1001           job-busy            2     2      0      0 b/251gb    0/64     0/0   0/4 11,12",
		"x1002           free                1     1      0    120gb/251gb   60/64     0/0   3/4 13",
	})
	if want := (api.PartitionUsage{CPUs: 128, FreeCPUs: 60, GPUs: 8, FreeGPUs: 3, NodeCPUs: 64, NodeMB: 251 << 10, Guess: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
