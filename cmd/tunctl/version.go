package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// stamped is set by the Makefile: -ldflags "-X main.stamped=v1.2.3".
var stamped string

func version() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

func versionCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "show the version",
		Action: func(*cli.Context) error {
			_, err := fmt.Fprintf(t.out, "tunctl %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
