package real

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"tunctl/internal/atomicfile"
)

// Options are what a lab can have besides the usual.
type Options struct {
	// Accounting adds slurmdbd and its database: sacct, accounts and their limits.
	// It takes some seconds more to start.
	Accounting bool `json:"accounting,omitempty"`
	// GridEngine is for a lab with Grid Engine instead of Slurm.
	GridEngine bool `json:"gridEngine,omitempty"`
	// Adopt has compute nodes make a login part of the user's job there, by pam_slurm_adopt and
	// control groups. Otherwise a job there only permits the login.
	Adopt bool `json:"adopt,omitempty"`
}

// scheduler is the group of parts with the lab's scheduler.
func (o Options) scheduler() string {
	if o.GridEngine {
		return "gridengine"
	}
	return "slurm"
}

// Cluster is a running lab.
type Cluster struct {
	dir     string
	plan    plan
	options Options

	mu        sync.Mutex
	record    record
	own       []*exec.Cmd // children of this process, to be reaped
	ownerPipe *os.File    // while it is open, the keeper knows that we run

	nodes sync.RWMutex // guards record.Nodes: one test may crash a node while others look at theirs
}

// record is the content of lab.json: what other processes must know of a lab.
type record struct {
	plan
	Options
	// Network is the network namespace that the laptop's end is in: a slot is taken in
	// one of them, and free in the others.
	Network string             `json:"network"`
	Linked  bool               `json:"linked"` // has its slot: device and routes
	Owner   process            `json:"owner"`
	Keeper  process            `json:"keeper"`
	Nodes   map[string]process `json:"nodes"`
	Delay   process            `json:"delay"`            // holds packets up
	Code    int64              `json:"code"`             // the step of the last one-time code handed out
	Config  string             `json:"config,omitempty"` // a tunctl config that goes with the lab
}

// base is the folder of all labs.
func base() string { return filepath.Join(os.TempDir(), "tunctl-lab") }

// Up starts a lab in a folder of its own under the temporary folder, called name.
// One that is not kept ends with this process.
func Up(name string, keep bool, o Options) (*Cluster, error) {
	if err := Check("ssh", o.scheduler()); err != nil {
		return nil, err
	}
	if err := makeBase(); err != nil {
		return nil, err
	}
	if err := clearLeftovers(); err != nil {
		return nil, err
	}
	c := &Cluster{dir: filepath.Join(base(), name), options: o}
	if err := c.makeFolder(); err != nil {
		return nil, err
	}
	if err := c.start(keep); err != nil {
		return nil, errors.Join(err, c.Down())
	}
	return c, nil
}

// makeFolder creates the lab's folder, with its owner recorded from the first moment.
func (c *Cluster) makeFolder() error {
	self, err := lookup(os.Getpid())
	if err != nil {
		return err
	}
	// The last lab that ends removes the folder of all labs, perhaps just now.
	err = fs.ErrNotExist
	for try := 0; errors.Is(err, fs.ErrNotExist) && try < 3; try++ {
		err = cmp.Or(makeBase(), os.Mkdir(c.dir, 0o755))
	}
	if err != nil {
		return fmt.Errorf("cannot create the folder of the lab: %w", err)
	}
	c.record = record{Options: c.options, Network: ownNetwork(), Owner: self, Nodes: map[string]process{}}
	return c.save()
}

// makeBase creates the folder of all labs, and rejects another user's.
func makeBase() error {
	if err := os.Mkdir(base(), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !ownedByRoot(base()) {
		return fmt.Errorf("%s is not a folder of root's: remove it", base())
	}
	return nil
}

func (c *Cluster) start(keep bool) error {
	steps := []func() error{c.startKeeper, c.connect, c.makeKeys, c.makeHomes, c.startNodes, c.startServices}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if keep {
		return c.release()
	}
	return nil
}

func (c *Cluster) makeKeys() error {
	if err := c.keys().make(c.plan); err != nil {
		return err
	}
	return c.keys().writeClient(c.plan, c.SSHConfig())
}

// release makes the keeper the owner of the lab.
func (c *Cluster) release() error {
	c.record.Owner = c.record.Keeper
	if err := c.save(); err != nil {
		return err
	}
	_, err := c.ownerPipe.WriteString(keepRunning)
	return err
}

// Open finds a lab that was started under name.
func Open(name string) (*Cluster, error) {
	c := &Cluster{dir: filepath.Join(base(), name)}
	if err := c.load(); err != nil {
		return nil, err
	}
	if !c.record.Owner.alive() {
		return nil, fmt.Errorf("lab %q is dead; its remains go with the next start: %w", name, fs.ErrNotExist)
	}
	return c, nil
}

// Down ends the lab and waits until nothing is left of it.
func (c *Cluster) Down() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ownerPipe != nil {
		_ = c.ownerPipe.Close()
	}
	// A kept lab has no ownerPipe; another may be half started.
	err := c.record.Keeper.signal(syscall.SIGTERM)
	if c.record.Keeper.PID != 0 && !c.record.Keeper.gone() {
		err = errors.Join(err, fmt.Errorf("the keeper of %s does not end", c.dir))
	}
	for _, cmd := range c.own {
		_ = cmd.Wait()
	}
	c.own = nil
	if _, gone := os.Stat(c.dir); errors.Is(gone, fs.ErrNotExist) {
		return err
	}
	return errors.Join(err, c.record.remove(c.dir, c.record.runHere))
}

func (c *Cluster) save() error {
	c.nodes.RLock()
	text, err := json.MarshalIndent(c.record, "", "  ")
	c.nodes.RUnlock()
	if err != nil {
		return err
	}
	return atomicfile.Write(c.path("lab.json"), text, 0o644)
}

func (c *Cluster) load() error {
	r, err := readRecord(c.dir)
	if err != nil {
		return err
	}
	c.record, c.plan, c.options = r, r.plan, r.Options
	return nil
}

func readRecord(dir string) (record, error) {
	text, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if err != nil {
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return record{}, fmt.Errorf("%s: %w", dir, err)
	}
	return r, nil
}

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

func (c *Cluster) keys() keyring { return keyring{c.path("keys")} }

// Dir is the lab's folder.
func (c *Cluster) Dir() string { return c.dir }

// SSHConfig is the path of the ssh_config that leads to the lab.
func (c *Cluster) SSHConfig() string { return c.path("ssh_config") }

// KeyFile is the path of a private key: id_hpcuser, id_pass (with Passphrase),
// id_cert, id_expired or id_stranger.
func (c *Cluster) KeyFile(name string) string { return c.keys().path(name) }
