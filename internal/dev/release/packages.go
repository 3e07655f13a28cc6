package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// nfpm makes .deb and .rpm alike from packaging/nfpm.yaml.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0"

// nobody stands where whoever makes the packages did not say who answers for them. The
// address can be nobody's (RFC 2606), and so cannot be taken for one that is read.
const nobody = "The tunctl authors <nobody@tunctl.invalid>"

// makePackages makes the .deb and the .rpm of a platform.
func (r *release) makePackages(ctx context.Context, p platform, stage string) error {
	if err := r.stageDocs(stage); err != nil {
		return err
	}
	for _, kind := range []string{"deb", "rpm"} {
		// Built as the program is, it shares with it what is compiled.
		cmd := exec.CommandContext(ctx, "go", "run", "-trimpath", nfpm, "package", "-f", "packaging/nfpm.yaml", "-p", kind, "-t", r.out)
		cmd.Dir = r.source
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0",
			"VERSION="+packageVersion(r.version), "ARCH="+p.arch, "MAINTAINER="+r.maintainer,
			"PROGRAM="+filepath.Join(stage, p.String(), p.program()), "STAGE="+stage,
			fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nfpm: %w\n%s", err, text)
		}
	}
	return nil
}

// described is what `git describe` says of a commit some way after a tag.
var described = regexp.MustCompile(`-(\d+)-g([0-9a-f]+)`)

// packageVersion is a version as both dpkg and rpm order it: 1.0~rc1 comes before
// 1.0, and 1.0+5.gabc, five commits later, after it.
func packageVersion(version string) string {
	v := strings.TrimPrefix(version, "v")
	if !regexp.MustCompile(`^\d+\.\d`).MatchString(v) {
		v = "0.0.0+git." + v
	}
	v = described.ReplaceAllString(v, "+$1.g$2")
	v = strings.ReplaceAll(v, "-dirty", "+dirty")
	return strings.ReplaceAll(v, "-", "~")
}

// stageDocs makes the pages and changelogs of the packages, compressed as Debian
// wants them: best, and without a time.
func (r *release) stageDocs(stage string) error {
	gz := filepath.Join(stage, "gz")
	if _, err := os.Stat(gz); err == nil {
		return nil // by another platform of this release
	}
	if err := os.Mkdir(gz, 0o700); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(stage, "man", "*.1"))
	if err != nil {
		return err
	}
	for _, page := range append(pages, filepath.Join(r.source, "CHANGELOG.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		if err := writeGzip(filepath.Join(gz, filepath.Base(page)+".gz"), text); err != nil {
			return err
		}
	}
	return writeGzip(filepath.Join(gz, "changelog.Debian.gz"), []byte(r.debianChangelog()))
}

func (r *release) debianChangelog() string {
	return fmt.Sprintf("tunctl-agent (%s-1) unstable; urgency=medium\n\n"+
		"  * Release %s. What is new stands in changelog.gz.\n\n -- %s  %s\n",
		packageVersion(r.version), r.version, r.maintainer, r.date.Format(time.RFC1123Z))
}

func writeGzip(path string, text []byte) error {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o600)
}
