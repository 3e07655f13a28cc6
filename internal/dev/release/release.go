package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is one release while it is made.
type release struct {
	source     string // the folder of the source
	out        string // the folder that is written
	version    string // v1.2.3, or what git says of a commit without a tag
	commit     string
	date       time.Time // of the commit; every file is of that time
	url        string
	platforms  []platform
	packages   bool
	maintainer string // whom the packages name: NAME <ADDRESS>
	squeeze    int    // how hard archives are compressed
	cache      string // of the compiler; empty: the usual one
	say        func(format string, args ...any)
}

// find fills in what git knows.
func (r *release) find(ctx context.Context) error {
	out, err := filepath.Abs(r.out)
	if err != nil {
		return err
	}
	r.out = out
	if r.source, err = git(ctx, ".", "rev-parse", "--show-toplevel"); err != nil {
		return err
	}
	if r.version == "" {
		if r.version, err = git(ctx, r.source, "describe", "--tags", "--always", "--dirty"); err != nil {
			return err
		}
	}
	if r.commit, err = git(ctx, r.source, "rev-parse", "HEAD"); err != nil {
		return err
	}
	stamp, err := git(ctx, r.source, "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	r.date = time.Unix(seconds, 0).UTC()
	return err
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// make makes the release, from nothing to its checksums.
func (r *release) make(ctx context.Context) error {
	if err := r.checkPlatforms(); err != nil {
		return err
	}
	if err := r.emptyOut(); err != nil {
		return err
	}
	stage, err := os.MkdirTemp("", "tunctl-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(stage) }()
	if err := r.stageCommon(ctx, stage); err != nil {
		return err
	}
	for _, p := range r.platforms {
		if err := r.makeFor(ctx, p, stage); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if r.url == "" {
		r.say("no -url: no manifests for Homebrew, Scoop, winget and conda")
	} else if err := r.fillManifests(); err != nil {
		return err
	}
	return r.writeChecksums()
}

// checkPlatforms refuses a release whose manifests would name archives that it does not make.
func (r *release) checkPlatforms() error {
	var missing []string
	for _, name := range everyPlatform() {
		if !slices.ContainsFunc(r.platforms, func(p platform) bool { return p.String() == name }) {
			missing = append(missing, name)
		}
	}
	if r.url != "" && len(missing) > 0 {
		return fmt.Errorf("the manifests, which -url asks for, name every platform: leave out -url, or add %s to -platforms", strings.Join(missing, ","))
	}
	return nil
}

// emptyOut creates the folder again. One that is not a release's is left alone.
func (r *release) emptyOut() error {
	entries, err := os.ReadDir(r.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(r.out, checksums)); err != nil && len(entries) > 0 {
		return fmt.Errorf("%q holds something else than a release: empty it yourself", r.out)
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	return os.MkdirAll(r.out, 0o755) //nolint:gosec // a release is for everybody
}

// makeFor makes everything of one platform.
func (r *release) makeFor(ctx context.Context, p platform, stage string) error {
	programs, err := r.programs(ctx, p, stage)
	if err != nil {
		return err
	}
	program, name := programs[0].path, r.baseName(p)
	if err := r.writeBOM(program, filepath.Join(r.out, name+".cdx.json")); err != nil {
		return err
	}
	files, err := r.archived(programs, stage)
	if err != nil {
		return err
	}
	if err := r.writeArchive(filepath.Join(r.out, name+p.archive()), name, files); err != nil {
		return err
	}
	if err := r.makeWheel(p, programs, stage); err != nil {
		return err
	}
	if p.system == "darwin" {
		if err := r.makeBundle(p, program, stage); err != nil {
			return err
		}
	}
	if r.packages && p.system == "linux" {
		if err := r.makePackages(ctx, p, stage); err != nil {
			return err
		}
	}
	note := ""
	if p.system == "darwin" && !p.cgo() {
		note = " (without the tray's icon, which needs cgo: `make app` on a Mac builds it)"
	}
	r.say("made %s%s", p, note)
	return nil
}

// program builds the program for a platform, once.
func (r *release) program(ctx context.Context, p platform, stage string) (string, error) {
	path := filepath.Join(stage, p.String(), p.program())
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, r.build(ctx, p, path)
}

// programs builds all programs of a platform: the one for the terminal comes first.
func (r *release) programs(ctx context.Context, p platform, stage string) ([]archivedFile, error) {
	program, err := r.program(ctx, p, stage)
	if err != nil {
		return nil, err
	}
	list := []archivedFile{{path: program, name: p.program(), mode: 0o755}}
	if windowless := p.windowless(); windowless != "" {
		path := filepath.Join(filepath.Dir(program), windowless)
		if err := r.build(ctx, p, path); err != nil {
			return nil, err
		}
		list = append(list, archivedFile{path: path, name: windowless, mode: 0o755})
	}
	return list, nil
}

func (r *release) baseName(p platform) string {
	return fmt.Sprintf("tunctl_%s_%s_%s", r.version, p.system, p.arch)
}

// stageCommon makes what is the same for every platform: man pages, and completions as the
// program itself prints them.
func (r *release) stageCommon(ctx context.Context, stage string) error {
	program, err := r.program(ctx, platform{runtime.GOOS, runtime.GOARCH}, stage)
	if err != nil {
		return err
	}
	for _, dir := range []string{"man", "completion"} {
		if err := os.MkdirAll(filepath.Join(stage, dir), 0o700); err != nil {
			return err
		}
	}
	pages, err := filepath.Glob(filepath.Join(r.source, "packaging", "man", "*"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		if err := copyFile(page, filepath.Join(stage, "man", filepath.Base(page)), 0o644, r.date); err != nil {
			return err
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		text, err := r.output(ctx, program, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(stage, "completion", shell), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// output runs a program that we built.
func (r *release) output(ctx context.Context, program string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("tunctl %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// archived are the files of an archive with these programs.
func (r *release) archived(programs []archivedFile, stage string) ([]archivedFile, error) {
	files := slices.Clone(programs)
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		files = append(files, archivedFile{path: filepath.Join(r.source, name), name: name, mode: 0o644})
	}
	for _, dir := range []string{"man", "completion"} {
		entries, err := os.ReadDir(filepath.Join(stage, dir))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			files = append(files, archivedFile{path: filepath.Join(stage, dir, e.Name()), name: dir + "/" + e.Name(), mode: 0o644})
		}
	}
	return files, nil
}

// checksums is the file that `sha256sum -c` reads. It is written last, and so marks
// a folder that holds a whole release.
const checksums = "SHA256SUMS"

func (r *release) writeChecksums() error {
	entries, err := os.ReadDir(r.out) // in the order of names
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, e := range entries {
		sum, err := sha256Of(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s  %s\n", sum, e.Name())
	}
	r.say("%d files in %s", len(entries)+1, r.out)
	return os.WriteFile(filepath.Join(r.out, checksums), []byte(list.String()), 0o644) //nolint:gosec // a release is for everybody
}

func sha256Of(path string) (sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
