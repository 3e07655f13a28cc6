package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/internal/cmdline"
	"tunctl/internal/term"
)

// stamped and commit are set when a release is built:
// -ldflags "-X main.stamped=v1.2.3 -X main.commit=0123abc".
var stamped, commit string

func version() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// revision is the commit that the program was built from, shortened; "" if unknown.
func revision() string {
	full := commit
	if info, ok := debug.ReadBuildInfo(); ok && full == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				full = s.Value
			}
		}
	}
	return full[:min(len(full), 12)]
}

func versionCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:  cmdline.VersionCommand,
		Usage: "print the version",
		Action: func(*cli.Context) error {
			facts := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if r := revision(); r != "" {
				facts = append([]string{"commit " + r}, facts...)
			}
			_, err := fmt.Fprintf(t.Out, "tunctl %s (%s)\n", version(), strings.Join(facts, ", "))
			return err
		},
	}
}
