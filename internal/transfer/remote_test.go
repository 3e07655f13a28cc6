package transfer

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestHostChannelBeingOpened(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, h *Host, answer func()){
		"a cancelled copy does not wait for it": func(t *testing.T, h *Host, answer func()) {
			defer answer()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := h.use(ctx, 0, func(files) error { return nil }); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		},
		"Close ends it": func(t *testing.T, h *Host, answer func()) {
			closed := make(chan error)
			go func() { closed <- h.Close() }()
			synctest.Wait()
			answer()
			if err := <-closed; err != nil || h.lanes[0].files != nil {
				t.Errorf("%v, and a channel is open: %v", err, h.lanes[0].files != nil)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, answered := newServer(t), make(chan struct{})
				// A dial may take as long as the user needs to log in.
				h := NewHost(func(ctx context.Context, again, spare bool) (io.ReadWriteCloser, error) {
					<-answered
					return s.dial(ctx, again, spare)
				})
				used := make(chan error, 1)
				go func() { used <- h.use(t.Context(), 0, func(files) error { return nil }) }()
				synctest.Wait()
				test(t, h, func() {
					close(answered)
					if err := <-used; err != nil {
						t.Error(err)
					}
				})
				_ = h.Close()
			})
		})
	}
}

func TestCopyOpensChannelsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, large, begun := newServer(t), filepath.Join(t.TempDir(), "large"), time.Now()
		file(t, large, 8*chunkSize)
		h := NewHost(func(ctx context.Context, again, spare bool) (io.ReadWriteCloser, error) {
			time.Sleep(time.Second)
			return s.dial(ctx, again, spare)
		})
		err := Copy(t.Context(), Options{From: Local(), Sources: []string{large}, To: h, Target: "large", Progress: new(Progress)})
		_ = h.Close()
		if took := time.Since(begun); err != nil || took > 2*time.Second { // the first one, and then all the others
			t.Errorf("it took %v; %v", took, err)
		}
	})
}

func TestList(t *testing.T) {
	s := newServer(t)
	for _, name := range []string{"results/a", "reports/a", "readme", "other"} {
		file(t, s.path(name), 1)
	}
	symlink(t, "results", s.path("recent"))
	stream, err := s.dial(t.Context(), false, false)
	if err != nil {
		t.Fatal(err)
	}
	names, err := List(t.Context(), stream, ".", "re")
	slices.Sort(names)
	if want := []string{"readme", "recent/", "reports/", "results/"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("got %q, %v; want %q", names, err, want)
	}
}
