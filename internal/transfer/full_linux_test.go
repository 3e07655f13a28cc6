package transfer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/smalldisk"
)

func TestCopyFullDisk(t *testing.T) {
	const room, size, more = writeWindow>>10 + 8<<10, writeWindow + 16*chunkSize, 200 << 10
	disk, child := smalldisk.New(t, room)
	if !child {
		return
	}
	for name, ends := range map[string]func(s *server) Options{
		"there": func(s *server) Options {
			return Options{From: Local(), Sources: []string{s.path("a")}, Target: filepath.Join(disk, "copy")}
		},
		"here": func(s *server) Options {
			return Options{To: Local(), Sources: []string{s.path("a")}, Target: filepath.Join(disk, "copy")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			o := ends(s)
			data := file(t, o.Sources[0], size)
			copied := filepath.Join(disk, "copy")
			err := s.copy(o)
			if !errors.Is(err, errFull) || strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("it said %v", err)
			}
			if _, err := os.Stat(copied); err == nil {
				t.Error("half a file has the name of the whole")
			}
			smalldisk.Resize(t, disk, more)
			o.Resume, o.Progress = true, new(Progress)
			s.mustCopy(o)
			same(t, copied, data)
			noParts(t, disk)
			if n := o.Progress.Counts(); n.Skipped == 0 {
				t.Errorf("nothing of the first try was used: %+v", n)
			}
			if err := os.Remove(copied); err != nil {
				t.Fatal(err)
			}
			smalldisk.Resize(t, disk, room)
		})
	}
}

func TestCopyFullDiskSmallFiles(t *testing.T) {
	disk, child := smalldisk.New(t, 1<<10)
	if !child {
		return
	}
	s := newServer(t)
	here := t.TempDir()
	for i := range 8 {
		file(t, filepath.Join(here, "d", fmt.Sprint(i)), smallFile)
	}
	err := s.copy(Options{From: Local(), Sources: []string{filepath.Join(here, "d")}, Target: filepath.Join(disk, "d")})
	if !errors.Is(err, errFull) {
		t.Errorf("it said %v", err)
	}
	noParts(t, filepath.Join(disk, "d"))
}
