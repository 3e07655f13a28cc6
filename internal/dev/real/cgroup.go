package real

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// freezer is the hierarchy of control groups by which Slurm knows the processes of a job.
const freezer = "/sys/fs/cgroup/freezer"

// cgroup is the control group of all jobs of a node: one kernel is for all labs.
func cgroup(dir, node string) string {
	return filepath.Join(freezer, "tunctl-lab-"+filepath.Base(dir)+"-"+node)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// removeCgroups removes the control groups of a lab whose processes are gone.
func removeCgroups(dir string) error {
	roots, err := filepath.Glob(cgroup(dir, "*"))
	for _, root := range roots {
		err = errors.Join(err, removeFolders(root))
	}
	return err
}

// removeFolders removes a folder of folders: the files of a control group go with it.
func removeFolders(root string) error {
	var all []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			all = append(all, path)
		}
		return err
	})
	for _, dir := range slices.Backward(all) {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}
