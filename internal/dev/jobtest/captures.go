package jobtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tunctl/jobwatch/remote"
)

// Capture is the recorded answer of a real scheduler.
type Capture struct {
	Name, Command string
	Result        remote.Result
}

var (
	captureHead   = regexp.MustCompile(`(?s)^# cmd: (.*?)\s+# rc: (\d+)\n`)
	captureStderr = regexp.MustCompile(`(?m)^# (?:stderr:|--- stderr ---)\n`)
)

// Captures reads those of one scheduler from the folder that TUNCTL_CAPTURES names.
func Captures(t *testing.T, scheduler string) []Capture {
	t.Helper()
	folder := os.Getenv("TUNCTL_CAPTURES")
	if folder == "" {
		t.Skip("TUNCTL_CAPTURES names no folder")
	}
	folder = filepath.Join(folder, scheduler)
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("TUNCTL_CAPTURES has no folder %q", scheduler)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures in %q (%v)", folder, err)
	}
	var list []Capture
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if captureHead.Match(data) { // else a note, not an answer
			list = append(list, ParseCapture(file, data))
		}
	}
	return list
}

// EnoughRead fails if suspiciously few jobs were read. For a folder with an index, see
// CheckSamples.
func EnoughRead(t *testing.T, scheduler string, read int) {
	t.Helper()
	_, err := os.Stat(filepath.Join(os.Getenv("TUNCTL_CAPTURES"), scheduler, sampleIndex))
	if err != nil && read < 150 {
		t.Errorf("only %d jobs were read", read)
	}
	t.Logf("%d jobs read", read)
}

// ParseCapture reads a recorded answer: its first line may have the command and the exit
// status, and a separate line precedes standard error.
func ParseCapture(path string, data []byte) Capture {
	c := Capture{Name: strings.TrimSuffix(filepath.Base(path), ".txt")}
	c.Result.Stdout = data
	if m := captureHead.FindSubmatchIndex(data); m != nil {
		c.Command = string(data[m[2]:m[3]])
		c.Result.Exit, _ = strconv.Atoi(string(data[m[4]:m[5]]))
		c.Result.Stdout = data[m[1]:]
	}
	if at := captureStderr.FindIndex(c.Result.Stdout); at != nil {
		c.Result.Stdout, c.Result.Stderr = c.Result.Stdout[:at[0]], c.Result.Stdout[at[1]:]
	}
	return c
}
