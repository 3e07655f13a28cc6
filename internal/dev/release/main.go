// Command release makes what a release is made of, in one folder: a static program
// for each system, archives, wheels for Python's package managers, tunctl.app for macOS,
// packages, manifests for other package managers, a list of what is inside each program,
// and checksums of all of it.
//
//	go run ./internal/dev/release -url https://example.org/releases/v1.2.3
//
// The same commit and the same Go give the same bytes, on any machine and in any
// folder: -again proves it. Nothing is uploaded, and nothing outside the folder is
// written.
package main

import (
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	r := &release{squeeze: gzip.BestCompression, say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	flags.StringVar(&r.out, "out", "dist", "the `FOLDER` to write, which is emptied first")
	flags.StringVar(&r.version, "version", "", "the `VERSION`; by default as git describes it")
	flags.StringVar(&r.url, "url", "", "where the files will be found, for the manifests of Homebrew, Scoop, winget and conda")
	flags.StringVar(&r.maintainer, "maintainer", nobody, "whom the packages name: `NAME <ADDRESS>`")
	platforms := flags.String("platforms", strings.Join(everyPlatform(), ","), "what to build for")
	packages := flags.Bool("packages", true, "make .deb and .rpm")
	again := flags.Bool("again", false, "make it all a second time, in another folder with an empty build cache, and compare")
	app := flags.String("app", "", "make only tunctl.app, in `FOLDER`, with the menu-bar icon; needs a Mac")
	_ = flags.Parse(args) // it exits
	r.packages = *packages
	for name := range strings.SplitSeq(*platforms, ",") {
		p, err := parsePlatform(name)
		if err != nil {
			return err
		}
		r.platforms = append(r.platforms, p)
	}
	if err := r.find(ctx); err != nil {
		return err
	}
	if *app != "" {
		return r.makeApp(ctx, *app)
	}
	if err := r.make(ctx); err != nil {
		return err
	}
	if *again {
		return r.repeat(ctx)
	}
	return nil
}
