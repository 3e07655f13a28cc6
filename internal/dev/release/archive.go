package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// archivedFile is a file on its way into an archive.
type archivedFile struct {
	path string // here
	name string // there, with slashes
	mode fs.FileMode
}

// writeArchive writes a .tar.gz, or else a zip, below one folder (or none), in the order of
// names. Times, modes and owners are ours and not those of the machine.
func (r *release) writeArchive(file, folder string, files []archivedFile) (err error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b archivedFile) int { return cmp.Compare(a.name, b.name) })
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if strings.HasSuffix(file, ".tar.gz") {
		return r.writeTar(f, folder, files)
	}
	return r.writeZip(f, folder, files)
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
			Name: path.Join(folder, f.name), Mode: int64(f.mode), Size: int64(len(data)), ModTime: r.date, Format: tar.FormatUSTAR,
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
		if err := r.addToZip(out, path.Join(folder, f.name), f.mode, data); err != nil {
			return err
		}
	}
	return out.Close()
}

// addToZip writes sizes and checksum before the data, and not after it, as zip.Writer does
// on its own: PyPI refuses a wheel with such data descriptors.
func (r *release) addToZip(out *zip.Writer, name string, mode fs.FileMode, data []byte) error {
	var squeezed bytes.Buffer
	deflate, err := flate.NewWriter(&squeezed, r.squeeze)
	if err != nil {
		return err
	}
	_, err = deflate.Write(data)
	if err := errors.Join(err, deflate.Close()); err != nil {
		return err
	}
	header := &zip.FileHeader{
		Name: name, Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(data), ReaderVersion: 20,
		UncompressedSize64: uint64(len(data)), CompressedSize64: uint64(squeezed.Len()),
	}
	header.SetMode(mode)
	header.SetModTime(r.date) //nolint:staticcheck // zip.Writer.CreateRaw reads the time in this form only
	entry, err := out.CreateRaw(header)
	if err != nil {
		return err
	}
	_, err = entry.Write(squeezed.Bytes())
	return err
}
