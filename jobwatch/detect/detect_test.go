package detect

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

const banner = `[I 2024-05-02 10:11:12.131 ServerApp] Jupyter Server 2.14.2 is running at:
[I 2024-05-02 10:11:12.131 ServerApp] http://n003:8888/lab?token=0123456789abcdef0123456789abcdef0123456789abcdef
`

func detect(t testing.TB, log string) Finding {
	t.Helper()
	return detectBytes(t, []byte(log), 4096)
}

func TestAPartialLastLineCountsOnlyAfterFlush(t *testing.T) {
	t.Parallel()
	d := New("")
	fmt.Fprint(d, "JupyterLab will listen on: n003:81")
	if d.Finding().Found {
		t.Error("an unfinished line was believed")
	}
	d.Flush()
	if f := d.Finding(); f.Port != 81 {
		t.Errorf("after Flush: port %d, want 81", f.Port)
	}
}

func TestResetForgetsTheOldLog(t *testing.T) {
	t.Parallel()
	d := New("")
	fmt.Fprint(d, banner, "half a li")
	d.Stream("").Reset()
	d.Flush()
	if f := d.Finding(); f.Found || len(f.notes) != 0 {
		t.Errorf("still found: %s", describe(f))
	}
}

func TestOnlyTheAskedAppIsFound(t *testing.T) {
	t.Parallel()
	log := banner + "TensorBoard 2.16.2 at http://n003:6006/ (Press CTRL+C to quit)\n"
	for only, want := range map[string]int{"": 8888, "tensorboard": 6006, "jupyter": 8888} {
		d := New(only)
		fmt.Fprint(d, log)
		if f := d.Finding(); f.Port != want {
			t.Errorf("looking for %q: port %d, want %d", only, f.Port, want)
		}
	}
}

func TestAPersonsOwnPatternsAreReadFirst(t *testing.T) {
	t.Parallel()
	app := App{Name: "mytool", Patterns: []*regexp.Regexp{
		regexp.MustCompile(`ready at (?P<scheme>https?)://(?P<host>\S+):(?P<port>\d+)(?P<path>/\S*)\?key=(?P<token>\w+)`),
	}}
	d := New("", app)
	fmt.Fprint(d, banner, "mytool: ready at https://n003:7000/ui?key=abc123\n")
	want := "mytool https://n003:7000/ui token=abc123 reach=login"
	if got := describe(d.Finding()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFilesOfOneJobAreJudgedTogether(t *testing.T) {
	t.Parallel()
	d := New("")
	out, err := d.Stream("out"), d.Stream("err")
	fmt.Fprint(err, strings.ReplaceAll(banner, "n003:8888", "hostname:8888")+"half a")
	fmt.Fprint(out, "JupyterLab will listen on: n003:8123\n")
	fmt.Fprint(err, " line\n")
	if f := d.Finding(); f.Address() != "n003:8123" || f.Token.IsZero() {
		t.Errorf("got %s, want the hint's address and the banner's token", describe(f))
	}
	out.Reset()
	if f := d.Finding(); f.Address() != "hostname:8888" {
		t.Errorf("after the hint's file was replaced: %s", describe(f))
	}
}

func TestAHintReadLateDoesNotReviveAnEndedServer(t *testing.T) {
	t.Parallel()
	d := New("")
	fmt.Fprint(d.Stream("err"), banner, "[C 2024-05-02 11:00:00.000 ServerApp] received signal 15, stopping\n")
	fmt.Fprint(d.Stream("out"), "JupyterLab will listen on: n003:8888\n")
	if f := d.Finding(); !f.Ended {
		t.Errorf("not ended: %s", describe(f))
	}
}

func TestTheRuntimeFileIsPointedTo(t *testing.T) {
	t.Parallel()
	f := detect(t, banner+"        file:///home/ann%20b/.local/share/jupyter/runtime/jpserver-67643-open.html\n")
	if want := "/home/ann b/.local/share/jupyter/runtime/jpserver-67643.json"; f.RuntimeFile != want {
		t.Errorf("runtime file %q, want %q", f.RuntimeFile, want)
	}
}

func TestNothingASecretIsInCanBeSeen(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123456789abcdef0123456789abcdef"
	f := detect(t, "token: "+token+"\nopen http://localhost:1/?token="+token+"\n"+banner)
	if f.Token.Reveal() != token {
		t.Fatalf("token %q", f.Token.Reveal())
	}
	var out bytes.Buffer
	f.Explain(&out, false)
	for _, text := range []string{out.String(), fmt.Sprintf("%+v", f), fmt.Sprintf("%+v", f.Report(false))} {
		if strings.Contains(text, token) {
			t.Errorf("the token shows in %s", text)
		}
	}
	out.Reset()
	if f.Explain(&out, true); !strings.Contains(out.String(), token) || f.Report(true).Token != token {
		t.Error("asked for secrets, and not told")
	}
}

func TestNotesTellWhatWasPassedOver(t *testing.T) {
	t.Parallel()
	f := detect(t, "[I 2024-05-02 JupyterHub app:3245] JupyterHub is now running at http://:8000\n"+banner)
	var passed, found bool
	for _, n := range f.notes {
		passed = passed || n.ignored && n.at.line == 1 && strings.Contains(n.text, "JupyterHub")
		found = found || !n.ignored && n.at.line == 3
	}
	if !passed || !found {
		t.Errorf("notes %+v", f.notes)
	}
}

func TestMemoryStaysBounded(t *testing.T) {
	// Not parallel: it measures the heap.
	logs := map[string]func(i int) string{
		"no newline":      func(int) string { return "abcdefgh " },
		"no blank":        func(int) string { return "abcdefgh" },
		"many servers":    func(i int) string { return strings.ReplaceAll(banner, "8888", fmt.Sprint(1024+i%60000)) },
		"many hints":      func(i int) string { return fmt.Sprintf("ssh -L 1:n%d:%d a@b\n", i, 1024+i%60000) },
		"many links":      func(i int) string { return fmt.Sprintf("open http://n%d:1234/?token=abc%d now\n", i, i) },
		"many ports":      func(i int) string { return fmt.Sprintf("The port %d is already in use\n", 1024+i%60000) },
		"many app words":  func(i int) string { return fmt.Sprintf("jupyter rstudio %d https://x%d.example:99/\n", i, i) },
		"progress bars":   func(i int) string { return fmt.Sprintf("%d%% http://\r", i) },
		"an open address": func(int) string { return "http://(" },
	}
	for name, piece := range logs {
		d := New("")
		before := heapBytes()
		for i := range 3_000 {
			fmt.Fprint(d, piece(i))
		}
		d.Flush()
		d.Finding()
		if grown := heapBytes() - before; grown > 300<<10 {
			t.Errorf("%s: the heap grew by %d KB", name, grown>>10)
		}
		runtime.KeepAlive(d)
	}
}

// heapBytes is what lives on the heap. The second collection empties the pools of
// package regexp, which are not ours to bound.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func FuzzDetector(f *testing.F) {
	samples, err := filepath.Glob("testdata/logs/*.log")
	if err != nil || len(samples) == 0 {
		f.Fatalf("no samples: %v", err)
	}
	for _, name := range samples {
		log, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(log, 13)
	}
	f.Fuzz(func(t *testing.T, log []byte, chunk int) {
		whole := detectBytes(t, log, max(1, len(log)))
		pieces := detectBytes(t, log, 1+max(0, chunk)%512)
		if got, want := describe(pieces), describe(whole); got != want {
			t.Errorf("in pieces %s\nas a whole %s", got, want)
		}
		if whole.Found && (whole.Port < 0 || whole.Port > 65535 || whole.Path == "" || whole.Scheme == "") {
			t.Errorf("impossible: %s", describe(whole))
		}
		if len(whole.notes) > maxNotes {
			t.Errorf("%d notes", len(whole.notes))
		}
	})
}

func BenchmarkDetector(b *testing.B) {
	line := "step %d: loss 0.%04d, lr 3.0e-4, 1234.5 tokens/s, see report in /scratch/ann/run/output\n"
	var training bytes.Buffer
	for i := 0; training.Len() < 8<<20; i++ {
		fmt.Fprintf(&training, line, i, i%10000)
	}
	var requests bytes.Buffer
	for i := 0; requests.Len() < 8<<20; i++ {
		fmt.Fprintf(&requests, "[I 2024-05-02 10:11:12.131 ServerApp] 200 GET /api/contents?id=%d (ann@10.0.0.1) 3.1ms referer=http://localhost:8888/lab\n", i)
	}
	for name, log := range map[string][]byte{"training": training.Bytes(), "requests": requests.Bytes()} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(log)))
			for b.Loop() {
				d := New("")
				for chunk := log; len(chunk) > 0; chunk = chunk[min(len(chunk), 64<<10):] {
					if _, err := d.Write(chunk[:min(len(chunk), 64<<10)]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
