package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/localapi"
	"tunctl/jobwatch/remote"
)

// shownLog is what a client gets of a log.
func shownLog(t *testing.T, log []byte, src Stream, secrets string) []byte {
	t.Helper()
	src.Path, src.Reader = filepath.Join(t.TempDir(), "log"), remote.Local{}
	if err := os.WriteFile(src.Path, log, 0o600); err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	if err := src.send(t.Context(), localapi.NewLines(rec), url.Values{"secrets": {secrets}}, remote.Limits{}); err != nil {
		t.Fatal(err)
	}
	var shown []byte
	for dec := json.NewDecoder(rec.Body); ; {
		var c api.LogChunk
		err := dec.Decode(&c)
		if errors.Is(err, io.EOF) {
			return shown
		}
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, c.Bytes()...)
	}
}

func TestATokenAcrossTwoStretchesOfALogIsNotShown(t *testing.T) {
	const (
		stretch = 512 << 10
		token   = "0123456789abcdef0123456789abcdef0123456789abcdef"
		intro   = "http://nc10214:8888/lab?token="
	)
	for name, before := range map[string]int{
		"in the token":       stretch - len(intro) - 6,
		"in its name":        stretch - len(intro) + 3,
		"after its name":     stretch - len(intro),
		"before its address": stretch,
	} {
		t.Run(name, func(t *testing.T) {
			head := strings.Repeat("x", before-1) + "\n"
			log := head + intro + token + "\nthe end"
			for _, known := range []api.Secret{{}, api.NewSecret(token)} {
				if got := string(shownLog(t, []byte(log), Stream{Known: []api.Secret{known}}, "")); got != head+intro+"•••\nthe end" {
					t.Errorf("shown: …%q", got[max(0, len(got)-100):])
				}
			}
		})
	}
}

func TestALogThatIsNoUTF8IsShownByteForByte(t *testing.T) {
	log := append(bytes.Repeat([]byte("·"), 300<<10), "caf\xe9 \xff\xfe\x00 end"...) // a border falls into a letter
	for _, secrets := range []string{"1", ""} {
		if got := shownLog(t, log, Stream{}, secrets); !bytes.Equal(got, log) {
			t.Errorf("secrets %q: %d bytes became %d, which end with %q", secrets, len(log), len(got), got[max(0, len(got)-20):])
		}
	}
}

func TestAFollowedLogMayBeginWithItsLastLinesAndEndsWithItsJob(t *testing.T) {
	var over context.Context // the end of the job
	src := Stream{Path: filepath.Join(t.TempDir(), "log"), Reader: remote.Local{}, End: func(ctx context.Context, _ func(api.Job)) (string, error) {
		select {
		case <-over.Done():
			return "job 1 finished", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}}
	if err := os.WriteFile(src.Path, []byte("one\ntwo?token=0123456789abcdef\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		src.Serve(w, r, remote.DefaultLimits(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	}))
	defer server.Close()
	for tail, want := range map[string]string{"0": "one\ntwo?token=•••\nthree\n", "2": "two?token=•••\nthree\n"} {
		var end context.CancelFunc
		over, end = context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"?follow=1&tail="+tail, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, dec := "", json.NewDecoder(res.Body)
		for len(got) < len(want) {
			var c api.LogChunk
			if err := dec.Decode(&c); err != nil {
				t.Fatal(err)
			}
			got += c.Text
		}
		if got != want {
			t.Errorf("the last %s lines: %q, want %q", tail, got, want)
		}
		end()
		var last api.LogChunk
		if err := dec.Decode(&last); err != nil || last.Ended != "job 1 finished" || dec.More() {
			t.Errorf("after the job's end: %+v, %v", last, err)
		}
		_ = res.Body.Close()
	}
}
