package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// archivedFile is a file on its way into an archive.
type archivedFile struct {
	path string // here
	name string // there, with slashes
	mode fs.FileMode
}

// writeArchive writes a .zip or a .tar.gz, below one folder, in the order of names.
// Times, modes and owners are ours and not those of the machine.
func (r *release) writeArchive(path, folder string, files []archivedFile) (err error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b archivedFile) int { return cmp.Compare(a.name, b.name) })
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if strings.HasSuffix(path, ".zip") {
		return r.writeZip(f, folder, files)
	}
	return r.writeTar(f, folder, files)
}

func (r *release) writeTar(w io.Writer, folder string, files []archivedFile) error {
	squeezed, err := gzip.NewWriterLevel(w, r.squeeze)
	if err != nil {
		return err
	}
	out := tar.NewWriter(squeezed)
	for _, f := range files {
		data, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		header := &tar.Header{
			Name: folder + "/" + f.name, Mode: int64(f.mode), Size: int64(len(data)), ModTime: r.date, Format: tar.FormatUSTAR,
			Uname: "root", Gname: "root",
		}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), squeezed.Close())
}

func (r *release) writeZip(w io.Writer, folder string, files []archivedFile) error {
	out := zip.NewWriter(w)
	for _, f := range files {
		data, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: folder + "/" + f.name, Method: zip.Deflate, Modified: r.date}
		header.SetMode(f.mode)
		entry, err := out.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(data); err != nil {
			return err
		}
	}
	return out.Close()
}
