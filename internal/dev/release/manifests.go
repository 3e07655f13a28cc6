package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// manifest is what a template in packaging/manifests may use.
type manifest struct {
	Version       string // 1.2.3
	PythonVersion string // the same, as PEP 440 has it, and conda
	Date          string
	Home          string // a page about it all
	release       *release
}

// URL is where a platform's archive will be found.
func (m manifest) URL(name string) (string, error) {
	p, err := parsePlatform(name)
	return strings.TrimSuffix(m.release.url, "/") + "/" + m.release.baseName(p) + p.archive(), err
}

// SHA256 is the checksum of a platform's archive.
func (m manifest) SHA256(name string) (string, error) {
	p, err := parsePlatform(name)
	if err != nil {
		return "", err
	}
	return sha256Of(filepath.Join(m.release.out, m.release.baseName(p)+p.archive()))
}

// Folder is the one folder in a platform's archive.
func (m manifest) Folder(name string) (string, error) {
	p, err := parsePlatform(name)
	return m.release.baseName(p), err
}

// fillManifests writes the package managers' manifests from their templates.
func (r *release) fillManifests() error {
	files, err := filepath.Glob(filepath.Join(r.source, "packaging", "manifests", "*.tmpl"))
	if err != nil {
		return err
	}
	m := manifest{
		Version: packageVersion(r.version), PythonVersion: wheelVersion(r.version),
		Date: r.date.Format(time.DateOnly), Home: r.url, release: r,
	}
	for _, file := range files {
		if err := m.fill(file); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

func (m manifest) fill(file string) (err error) {
	t, err := template.ParseFiles(file)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(m.release.out, strings.TrimSuffix(filepath.Base(file), ".tmpl")))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return t.Execute(out, m)
}
