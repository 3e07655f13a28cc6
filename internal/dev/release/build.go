package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// platform is a system and a processor, as Go names them.
type platform struct{ system, arch string }

// everyPlatform is what a release is built for.
func everyPlatform() []string {
	return []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}
}

func parsePlatform(name string) (platform, error) {
	system, arch, _ := strings.Cut(name, "/")
	if !slices.Contains(everyPlatform(), name) {
		return platform{}, fmt.Errorf("no platform %q; there is %s", name, strings.Join(everyPlatform(), ", "))
	}
	return platform{system, arch}, nil
}

// String implements fmt.Stringer.
func (p platform) String() string { return p.system + "/" + p.arch }

func (p platform) program() string {
	if p.system == "windows" {
		return "tunctl.exe"
	}
	return "tunctl"
}

// windowless is the program without a console, which starts at login: Windows opens a
// window for one with a console. "" on other systems.
func (p platform) windowless() string {
	if p.system == "windows" {
		return "tunctlw.exe"
	}
	return ""
}

func (p platform) archive() string {
	if p.system == "windows" {
		return ".zip"
	}
	return ".tar.gz"
}

// cgo reports whether the build uses C: only for the tray's icon on macOS, and only
// on a Mac, where Cocoa is.
func (p platform) cgo() bool { return p.system == "darwin" && runtime.GOOS == "darwin" }

// build builds the program so that its bytes depend on the source and on Go alone:
// no paths, no state of the checkout, no settings of whoever builds it.
func (r *release) build(ctx context.Context, p platform, out string) error {
	cgo := "0"
	if p.cgo() {
		cgo = "1"
	}
	stamp := fmt.Sprintf("-s -w -X main.stamped=%s -X main.commit=%s", r.version, r.commit)
	if p.system != "darwin" {
		// On macOS the linker makes the program's UUID from the build ID, and macOS 26 runs no
		// program without one; see golang/go#68678.
		stamp += " -buildid="
	}
	if filepath.Base(out) == p.windowless() {
		stamp += " -H=windowsgui"
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", stamp, "-o", out, "./cmd/tunctl")
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(),
		"CGO_ENABLED="+cgo, "GOOS="+p.system, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly", "GOEXPERIMENT=")
	if r.cache != "" {
		cmd.Env = append(cmd.Env, "GOCACHE="+r.cache)
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text)
	}
	return nil
}
