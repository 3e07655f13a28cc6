package main

import (
	"slices"
	"testing"

	"tunctl/internal/api"
)

func TestReadListeners(t *testing.T) {
	s := api.Session{Forwards: []api.Forward{
		{Kind: api.ForwardLocal, Target: "localhost:6006", Listen: "127.0.0.1:6006"},
		{Kind: api.ForwardRemote, Target: "localhost:8888"},
		{Kind: api.ForwardLocal, Target: "localhost:8080", Listen: "127.0.0.1:8080"},
	}}
	got := readListeners("welcome 17 to the cluster\ntunctl-listens 22B8 python3\ntunctl-listens 1776 tensor\x1b[2J board\ntunctl-listens 1776 again\ntunctl-listens 0050\ntunctl-listens zz x\n"+
		"tunctl-listens 1F90 tunctl\ntunctl-listens 7148 tunctl\n", s)
	want := []listener{{80, "", ""}, {6006, "tensor board", "127.0.0.1:6006"}, {8888, "python3", ""}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
