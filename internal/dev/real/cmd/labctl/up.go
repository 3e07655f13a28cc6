package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"tunctl/internal/dev/real"
)

const welcome = `The lab is up, after %v.

  tunctl --config %s up jupyter
  ssh -F %s lab-login

Also lab-pass, lab-otp, lab-pwotp, lab-cert, lab-tight, lab-single, lab-inner (through lab-jump),
and cn01 and cn02 while a job of yours runs there. The password is %s; labctl code gives one-time codes.
`

func up(root string, o real.Options) error {
	if c, err := real.Open(labName(root)); err == nil {
		return fmt.Errorf("a lab is up already, in %s", c.Dir())
	}
	if err := real.Check("jupyter"); err != nil {
		fmt.Fprintf(os.Stderr, "labctl: no notebooks: %v\n", err)
	}
	config := filepath.Join(root, "lab.toml")
	if err := real.CheckConfig(config); err != nil {
		return err
	}
	began := time.Now()
	c, err := real.Up(labName(root), true, o)
	if err != nil {
		return err
	}
	if err := c.WriteConfig(config); err != nil {
		return err
	}
	if err := share(config, c.SSHConfig(), filepath.Dir(c.KeyFile("id_hpcuser"))); err != nil {
		return err
	}
	took := time.Since(began).Round(10 * time.Millisecond)
	fmt.Printf(welcome, took, config, c.SSHConfig(), real.Password)
	return nil
}

// share gives files to the user behind sudo, who is to use them.
func share(paths ...string) error {
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	if err != nil {
		return nil //nolint:nilerr // no sudo: they are root's already
	}
	gid, err := strconv.Atoi(os.Getenv("SUDO_GID"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(name, uid, gid)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
