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

// nfpm makes the .deb from packaging/nfpm.yaml. The .rpm is made by rpmbuild: nfpm gives
// the files inside it absolute paths, which no other tool can unpack safely.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0"

// nobody stands where whoever makes the packages did not say who answers for them. The
// address can be nobody's (RFC 2606), and so cannot be taken for one that is read.
const nobody = "The tunctl authors <nobody@tunctl.invalid>"

// packagedFile is a file, or all that match a pattern, in a package.
type packagedFile struct {
	from string // below the project, or below the stage
	to   string // a folder, if it ends in a slash
	only string // the kind of package; "": both
}

var packagedFiles = []packagedFile{
	{from: "internal/autostart/tunctl.service", to: "usr/lib/systemd/user/"},
	{from: "packaging/tunctl.desktop", to: "usr/share/applications/"},
	{from: "packaging/tunctl.svg", to: "usr/share/icons/hicolor/scalable/apps/"},
	{from: "gz/*.1.gz", to: "usr/share/man/man1/"},
	{from: "gz/*.5.gz", to: "usr/share/man/man5/"},
	{from: "completion/bash", to: "usr/share/bash-completion/completions/tunctl"},
	{from: "completion/fish", to: "usr/share/fish/vendor_completions.d/tunctl.fish"},
	{from: "completion/zsh", to: "usr/share/zsh/vendor-completions/_tunctl", only: "deb"},
	{from: "completion/zsh", to: "usr/share/zsh/site-functions/_tunctl", only: "rpm"},
	{from: "completion/powershell", to: "usr/share/tunctl-agent/completion.ps1"},
	{from: "configs/example.toml", to: "usr/share/doc/tunctl-agent/examples/config.toml"},
	{from: "packaging/copyright", to: "usr/share/doc/tunctl-agent/"},
	{from: "gz/CHANGELOG.md.gz", to: "usr/share/doc/tunctl-agent/changelog.gz"},
	{from: "gz/changelog.Debian.gz", to: "usr/share/doc/tunctl-agent/", only: "deb"},
	{from: "packaging/lintian-overrides", to: "usr/share/lintian/overrides/tunctl-agent", only: "deb"},
}

// makePackages makes the .deb and the .rpm of a platform.
func (r *release) makePackages(ctx context.Context, p platform, stage string) error {
	if err := r.stageDocs(stage); err != nil {
		return err
	}
	for kind, make := range map[string]func(context.Context, platform, string) error{"deb": r.makeDeb, "rpm": r.makeRPM} {
		dir := filepath.Join(stage, p.String(), kind)
		if err := r.stagePackage(dir, kind, stage, p); err != nil {
			return err
		}
		if err := make(ctx, p, dir); err != nil {
			return err
		}
	}
	return nil
}

// stagePackage makes the tree of files of a package.
func (r *release) stagePackage(dir, kind, stage string, p platform) error {
	if err := copyFile(filepath.Join(stage, p.String(), p.program()), filepath.Join(dir, "usr/bin/tunctl"), 0o755, r.date); err != nil {
		return err
	}
	for _, f := range packagedFiles {
		if f.only != "" && f.only != kind {
			continue
		}
		found, err := filepath.Glob(filepath.Join(r.source, f.from))
		if err == nil && len(found) == 0 {
			found, err = filepath.Glob(filepath.Join(stage, f.from))
		}
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("there is no %s", f.from)
		}
		if err != nil {
			return err
		}
		for _, from := range found {
			to := filepath.Join(dir, f.to)
			if strings.HasSuffix(f.to, "/") {
				to = filepath.Join(to, filepath.Base(from))
			}
			if err := copyFile(from, to, 0o644, r.date); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyFile copies a file, into folders that are made for it.
func copyFile(from, to string, mode os.FileMode, modified time.Time) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // for everybody on the system
		return err
	}
	//nolint:gosec // the paths are our own
	return errors.Join(os.WriteFile(to, data, mode), os.Chmod(to, mode), os.Chtimes(to, modified, modified))
}

// makeDeb makes the .deb of a tree of files.
func (r *release) makeDeb(ctx context.Context, p platform, dir string) error {
	// Built as the program is, it shares with it what is compiled.
	cmd := exec.CommandContext(ctx, "go", "run", "-trimpath", nfpm, "package", "-f", "packaging/nfpm.yaml", "-p", "deb", "-t", r.out)
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0",
		"VERSION="+packageVersion(r.version), "ARCH="+p.arch, "MAINTAINER="+r.maintainer, "HOMEPAGE="+r.url, "TREE="+dir,
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nfpm: %w\n%s", err, text)
	}
	return nil
}

// makeRPM makes the .rpm of a tree of files.
func (r *release) makeRPM(ctx context.Context, p platform, dir string) error {
	work, err := os.MkdirTemp(filepath.Dir(dir), "rpmbuild-")
	if err != nil {
		return err
	}
	args := []string{"-bb", "--quiet", "--target", map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[p.arch] + "-linux"}
	for name, value := range map[string]string{
		"_topdir": work, "_rpmdir": r.out, "tree": dir, "our_version": packageVersion(r.version), "maintainer": r.maintainer,
		"date": r.date.Format("Mon Jan 02 2006"), "home": r.url,
	} {
		if value != "" {
			args = append(args, "--define", name+" "+value)
		}
	}
	cmd := exec.CommandContext(ctx, "rpmbuild", append(args, filepath.Join(r.source, "packaging", "tunctl.spec"))...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("rpmbuild: %w\n%s", err, text)
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
	pages, err := filepath.Glob(filepath.Join(stage, "man", "*"))
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
