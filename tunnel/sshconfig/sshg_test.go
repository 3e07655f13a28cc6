//go:build !windows

package sshconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
	"tunctl/tunnel/failure"
)

func TestSSHGIsToldApartBySpeedAndByWhatItSays(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		limit  time.Duration
		class  failure.Class
		says   string
	}{
		"the person's settings take too long": {`case "$*" in *none*) exit 0;; esac; sleep 600`, time.Second, failure.Passing, "Match exec"},
		"the defaults take too long":          {`case "$*" in *none*) sleep 600;; esac`, time.Second, failure.Passing, "busy"},
		"a line is wrong":                     {`echo "config: line 1: Bad configuration option: foo" >&2; exit 255`, wait.Limit, failure.Permanent, "Bad configuration option"},
		"a name cannot be looked up":          {`echo "ssh: Could not resolve hostname open: Temporary failure in name resolution" >&2; exit 255`, wait.Limit, failure.Passing, "Temporary failure"},
		"a name cannot be looked up, and a Match exec prints after that": {
			`printf '%s\r\n' "ssh: Could not resolve hostname open: Temporary failure in name resolution" "vpn: not connected" >&2; exit 255`, wait.Limit, failure.Passing, "vpn",
		},
		"a name cannot be looked up, and ssh prints debug messages": {
			`printf 'debug1: Reading configuration data config\r\nssh: Could not resolve hostname open: Temporary failure in name resolution\r\ndebug1: cleanup\r\n' >&2; exit 255`, wait.Limit, failure.Passing, "Temporary failure",
		},
		"a line is wrong, and a Match exec could not look up a name": {
			`printf '%s\n' "ssh: Could not resolve hostname vpn: Name or service not known" "config: line 1: Bad configuration option: foo" >&2; exit 255`, wait.Limit, failure.Permanent, "Bad configuration option",
		},
		"it is killed": {`kill -9 $$`, wait.Limit, failure.Passing, "killed"},
	} {
		// Before any of them runs: a file cannot be run while a child that is just being
		// started has it open for writing.
		dir := t.TempDir()
		if err := testprogram.Write(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"+tt.script+"\n")); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := api.Env{"PATH": dir + ":" + os.Getenv("PATH")}
			for limit := tt.limit; ; limit *= 2 { // on a busy machine the other one may take too long, too
				_, err := Resolver{SSHConfig: "config", Env: env, Timeout: limit}.Settings(t.Context(), "open")
				if failure.Of(err) == tt.class && strings.Contains(err.Error(), tt.says) {
					return
				}
				if limit >= wait.Limit {
					t.Fatal(err)
				}
			}
		})
	}
	_, err := Resolver{}.Settings(t.Context(), "-oProxyCommand=x")
	if failure.Of(err) != failure.Permanent {
		t.Errorf("no destination: %v", err)
	}
}

func TestSSHGWithoutDestination(t *testing.T) {
	testprogram.Need(t, "ssh")
	if _, err := (Resolver{SSHConfig: "none"}).Settings(t.Context(), "open:/"); err == nil || !strings.HasSuffix(err.Error(), "ssh does not accept it as a destination") {
		t.Error(err)
	}
}
