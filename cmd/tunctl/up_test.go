package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"tunctl/internal/desktop"
	"tunctl/internal/term"
)

func TestAPageThatDoesNotOpenIsToldOf(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		code int
		says string // to the person, or as the error
	}{
		{"no browser", t.Context(), desktop.ErrNoBrowser, 0, "`tunctl open jupyter --print`"},
		{"no viewer", t.Context(), desktop.ErrUnavailable, 0, "open that address with yours"},
		{"a browser that never came", t.Context(), desktop.ErrNotOpened, exitFailed, "tunctl: hint: `tunctl open jupyter` tries again"},
		{"Ctrl-C", stopped, desktop.ErrNotOpened, exitInterrupted, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var said bytes.Buffer
			err := notOpened(tt.ctx, term.New(nil, nil, &said), "tunctl open jupyter", "vnc://localhost:5901", fmt.Errorf("%w: for some reason", tt.err))
			if code := exitCode(err); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if err != nil {
				explain(term.New(nil, nil, &said), err)
			}
			if !strings.Contains(said.String(), tt.says) || tt.says == "" && said.Len() > 0 {
				t.Errorf("said %q, want %q", said.String(), tt.says)
			}
		})
	}
}
