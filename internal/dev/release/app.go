package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"text/template"
)

// bundle is the folder that macOS shows as one application.
const bundle = "tunctl.app"

// makeApp makes tunctl.app in a folder, for the Mac that this runs on.
func (r *release) makeApp(ctx context.Context, folder string) (err error) {
	p := platform{runtime.GOOS, runtime.GOARCH}
	if !p.cgo() {
		return errors.New("tunctl.app with its menu-bar icon is built on a Mac, since the icon needs Cocoa; " +
			"`make release` builds it anywhere, without the icon")
	}
	stage, err := os.MkdirTemp("", "tunctl-app-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	program, err := r.program(ctx, p, stage)
	if err != nil {
		return err
	}
	files, err := r.bundled(program, stage)
	if err != nil {
		return err
	}
	r.say("made %s", filepath.Join(folder, bundle))
	return replaceFolder(filepath.Join(folder, bundle), files)
}

// makeBundle makes the archive with a platform's tunctl.app. It is a .zip, which Finder
// unpacks.
func (r *release) makeBundle(p platform, program, stage string) error {
	files, err := r.bundled(program, stage)
	if err != nil {
		return err
	}
	return r.writeArchive(filepath.Join(r.out, r.baseName(p)+".app.zip"), bundle, files)
}

// bundled are the files of tunctl.app.
func (r *release) bundled(program, stage string) ([]archivedFile, error) {
	plist, icon := filepath.Join(stage, "Info.plist"), filepath.Join(stage, "tunctl.icns")
	if err := r.writeInfoPlist(plist); err != nil {
		return nil, err
	}
	if err := os.WriteFile(icon, icns(), 0o600); err != nil {
		return nil, err
	}
	return []archivedFile{
		{path: plist, name: "Contents/Info.plist", mode: 0o644},
		{path: program, name: "Contents/MacOS/tunctl", mode: 0o755},
		{path: icon, name: "Contents/Resources/tunctl.icns", mode: 0o644},
		{path: filepath.Join(r.source, "LICENSE"), name: "Contents/Resources/LICENSE", mode: 0o644},
	}, nil
}

func (r *release) writeInfoPlist(path string) (err error) {
	t, err := template.ParseFiles(filepath.Join(r.source, "packaging", "Info.plist.tmpl"))
	if err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return t.Execute(out, struct{ Version, Numbers string }{r.version, versionNumbers(r.version)})
}

// versionNumbers is a version as macOS compares it: three numbers and nothing else.
func versionNumbers(version string) string {
	if found := regexp.MustCompile(`^v?(\d+\.\d+\.\d+)`).FindStringSubmatch(version); found != nil {
		return found[1]
	}
	return "0.0.0"
}

// replaceFolder writes files to a folder, instead of what is there.
func replaceFolder(folder string, files []archivedFile) error {
	err := os.RemoveAll(folder)
	if err := errors.Join(err, os.MkdirAll(folder, 0o755)); err != nil { //nolint:gosec // a program is for everybody
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, f := range files {
		data, err := os.ReadFile(f.path)
		if err := errors.Join(err, root.MkdirAll(filepath.Dir(f.name), 0o755)); err != nil {
			return err
		}
		if err := root.WriteFile(f.name, data, f.mode); err != nil {
			return err
		}
	}
	return nil
}
