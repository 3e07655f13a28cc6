package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of all processes below it whose parents end: what tests leave behind is found
// among its children, and nothing of another run is. The channel tells that a child has ended.
func adopt() (<-chan os.Signal, error) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	return ended, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// bury takes note of the ends of adopted processes. Until then they would still be seen.
func bury(own int) {
	for _, pid := range children(os.Getpid()) {
		if pid != own {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// left returns what still runs below this process once the tests are over, and ends it. What is ending already has
// until ctx ends.
func left(ctx context.Context) (list []string) {
	for ; ; time.Sleep(100 * time.Millisecond) {
		bury(0)
		if len(children(os.Getpid())) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	below := children(os.Getpid())
	for n := 0; n < len(below); n++ {
		below = append(below, children(below[n])...)
	}
	for _, pid := range below {
		list = append(list, describe(pid))
	}
	for _, pid := range below {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return list
}

// children are the processes whose parent is pid.
func children(pid int) (list []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}

// describe says which process it is, and whose: a test starts in the folder of its package, which PWD still names for
// what has another one, and gives the program a home whose path has the name of the test.
func describe(pid int) string {
	proc := fmt.Sprintf("/proc/%d/", pid)
	command, _ := os.ReadFile(proc + "cmdline")
	environ, _ := os.ReadFile(proc + "environ")
	folder, _ := os.Readlink(proc + "cwd")
	text := fmt.Sprintf("%d  %q in %s", pid, strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " ")), folder)
	for variable := range strings.SplitSeq(string(environ), "\x00") {
		if strings.HasPrefix(variable, "TUNCTL_HOME=") || strings.HasPrefix(variable, "PWD=") && variable != "PWD="+folder {
			text += ", " + variable
		}
	}
	return text
}
