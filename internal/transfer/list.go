package transfer

import (
	"context"
	"io"
	"io/fs"
	"path"
	"strings"
)

// List returns the names in a host's folder that begin with prefix, over a stream to
// its file server, which it closes. Folders, and links to one, end in a slash.
func List(ctx context.Context, stream io.ReadWriteCloser, dir, prefix string) ([]string, error) {
	files, err := newRemoteFiles(ctx, stream)
	if err != nil {
		return nil, err
	}
	defer func() { _ = files.Close() }()
	infos, err := files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, info := range infos {
		name := info.Name()
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if target, err := files.Stat(path.Join(dir, name)); err == nil {
				info = target
			}
		}
		if info.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	return names, nil
}
