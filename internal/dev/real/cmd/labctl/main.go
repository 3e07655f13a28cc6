// Command labctl gives the user the cluster of real parts to play with.
package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tunctl/internal/dev/real"
)

const usage = `labctl - a small cluster of real parts: sshd, Slurm or Grid Engine, Jupyter

  up [accounting|gridengine|adopt]
                        start it, and write lab.toml for tunctl
  down                  end it
  status                what runs where
  shell [NODE]          a shell: as hpcuser on login1, or as root on a node
  ssh ARGS...           ssh with the lab's settings
  code                  a one-time code
  cut|restore WHERE     wifi, vpn, silent, reset, or a node's link
  roam                  give the laptop another address
  delay RTT [LOSS]      such as 100ms and percent; 0s ends it
  freeze|thaw|kill|restart|rotate|unrotate HOST
                        the connections, listener or keys of lab-login, lab-otp ...
  controller stop|start|freeze|thaw
  crash|boot NODE
  stop|start cn01|cn02  the sshd of a compute node
  check                 what this machine lacks, if anything
`

func main() {
	real.Role()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "labctl: error: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "--help"}, args[0]) {
		fmt.Print(usage)
		return nil
	}
	root, err := checkout()
	if err != nil {
		return err
	}
	switch args[0] {
	case "check":
		if err := real.Check("ssh", "slurm", "jupyter"); err != nil {
			return err
		}
		fmt.Println("This machine has all that the lab needs.")
		return nil
	case "up":
		return up(root, real.Options{
			Accounting: slices.Contains(args[1:], "accounting"), GridEngine: slices.Contains(args[1:], "gridengine"),
			Adopt: slices.Contains(args[1:], "adopt"),
		})
	}
	c, err := real.Open(labName(root))
	if errors.Is(err, fs.ErrNotExist) {
		if args[0] == "down" {
			return nil
		}
		return errors.New("no lab is up: make lab-up")
	}
	if err != nil {
		return err
	}
	if args[0] == "down" {
		return c.Down()
	}
	return with(c, args[0], args[1:])
}

// checkout is the folder of the project that we are in.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside a checkout of tunctl")
		}
		dir = filepath.Dir(dir)
	}
}

// labName is the checkout's own, so that another checkout can have a lab too.
func labName(root string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(root))
	return fmt.Sprintf("%s-%08x", strings.ToLower(filepath.Base(root)), h.Sum32())
}
