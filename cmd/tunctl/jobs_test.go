package main

import (
	"context"
	"errors"
	"testing"

	"tunctl/internal/api"
)

func TestAHostThatFailsCostsOnlyItsOwnJobs(t *testing.T) {
	t.Parallel()
	broken := errors.New("the scheduler does not respond")
	list, failed := collectJobs(t.Context(), []string{"narval", "broken", "m3"}, func(host string) ([]api.Job, error) {
		if host == "broken" {
			return nil, broken
		}
		return []api.Job{{ID: "job of " + host}}, nil
	})
	if len(list) != 2 || list[0].ID != "job of narval" || list[1].Host != "m3" {
		t.Errorf("listed %+v", list)
	}
	if len(failed) != 1 || !errors.Is(failed[0], broken) {
		t.Errorf("failed: %v", failed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, failed := collectJobs(ctx, []string{"narval"}, func(string) ([]api.Job, error) { return nil, broken }); len(failed) > 0 {
		t.Errorf("asked after Ctrl-C: %v", failed)
	}
}
