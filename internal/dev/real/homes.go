package real

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

//go:embed home
var homeFiles embed.FS

// makeHomes makes the folder that every node has as /home.
func (c *Cluster) makeHomes() error {
	if err := os.Mkdir(c.path("home"), 0o755); err != nil {
		return err
	}
	authorized, err := c.authorizedKeys()
	if err != nil {
		return err
	}
	inside, err := os.ReadFile(c.keys().path("id_inside"))
	if err != nil {
		return err
	}
	for _, u := range users {
		home := c.path("home", u.name)
		err := cmp.Or(
			os.MkdirAll(filepath.Join(home, ".ssh"), 0o700),
			os.Chmod(home, 0o700),
			os.WriteFile(filepath.Join(home, ".ssh", "authorized_keys"), authorized, 0o600),
			// From node to node people go without being asked, as on real clusters.
			os.WriteFile(filepath.Join(home, ".ssh", "id_ed25519"), inside, 0o600),
			os.WriteFile(filepath.Join(home, ".ssh", "config"), []byte("StrictHostKeyChecking accept-new\n"), 0o600),
			os.WriteFile(filepath.Join(home, ".profile"), []byte("export LANG=C.UTF-8\n"), 0o644),
			// A first login would start zsh's questions to a new user.
			os.WriteFile(filepath.Join(home, ".zshrc"), nil, 0o644),
			copyJobs(home),
			giveTo(u, home),
		)
		if err != nil {
			return fmt.Errorf("make the home of %q: %w", u.name, err)
		}
	}
	return nil
}

func (c *Cluster) authorizedKeys() ([]byte, error) {
	var all []byte
	for _, name := range []string{"id_hpcuser", "id_pass", "id_inside"} {
		key, err := os.ReadFile(c.keys().path(name + ".pub"))
		if err != nil {
			return nil, err
		}
		all = append(all, key...)
	}
	return all, nil
}

func copyJobs(home string) error {
	entries, err := homeFiles.ReadDir("home")
	if err != nil {
		return err
	}
	for _, e := range entries {
		text, err := homeFiles.ReadFile(path.Join("home", e.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(home, e.Name()), text, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// giveTo makes a user the owner of a file or folder and all in it.
func giveTo(u user, root string) error {
	return filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		return cmp.Or(err, os.Lchown(name, u.id, u.id))
	})
}
