package main

import (
	"slices"
	"testing"

	"tunctl/internal/api"
)

func TestReadListeners(t *testing.T) {
	s := api.Session{Forwards: []api.Forward{{Kind: api.ForwardLocal, Target: "localhost:6006", Listen: "127.0.0.1:6006"}, {Kind: api.ForwardRemote, Target: "localhost:8888"}}}
	got := readListeners("welcome 17 to the cluster\ntunctl-listens 22B8 python3\ntunctl-listens 1776 tensor\x1b[2J board\ntunctl-listens 1776 again\ntunctl-listens 0050\ntunctl-listens zz x\n", s)
	want := []listener{{80, "", ""}, {6006, "tensor board", "127.0.0.1:6006"}, {8888, "python3", ""}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
