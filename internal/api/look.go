package api

// Look is what a host has for a first session there. All of it comes from programs and
// files of the host: names are single words, and nothing in it steers a terminal.
type Look struct {
	Scheduler    string         `json:"scheduler,omitempty"` // as in the config; none if it is not known
	Accounts     []Account      `json:"accounts"`
	Partitions   []Partition    `json:"partitions"`             // that the user may use, the best first
	AnyPartition bool           `json:"anyPartition,omitempty"` // a job needs to name none
	Environments []Environment  `json:"environments"`
	Scripts      []JobScript    `json:"scripts"`
	Serving      []Candidate    `json:"serving"`            // running jobs that serve something
	Parallel     []string       `json:"parallel,omitempty"` // Grid Engine's parallel environments
	Problems     []string       `json:"problems,omitempty"` // what was not found out in time, in words
	Home         string         `json:"home,omitempty"`
	User         string         `json:"user,omitempty"`
	Cluster      PartitionUsage `json:"cluster,omitzero"` // of all nodes, where partitions are not told apart
}

// Account is one that jobs may be charged to.
type Account struct {
	Name       string   `json:"name"`
	Default    bool     `json:"default,omitempty"`
	Partition  string   `json:"partition,omitempty"` // it may be used there only
	QoS        []string `json:"qos,omitempty"`
	DefaultQoS string   `json:"defaultQos,omitempty"`
	Source     string   `json:"source"` // the command or file that named it
}

// Partition is a partition or a queue.
type Partition struct {
	Name         string   `json:"name"`
	Default      bool     `json:"default,omitempty"`
	LimitSeconds int64    `json:"limitSeconds,omitempty"` // the longest that a job may run; 0: no limit
	GPUTypes     []string `json:"gpuTypes,omitempty"`
	GPUOnly      bool     `json:"gpuOnly,omitempty"`  // every node has GPUs
	Accounts     []string `json:"accounts,omitempty"` // the user's accounts that it accepts; none: all
	QoS          string   `json:"qos,omitempty"`      // to ask for: it does not accept the default one
	Source       string   `json:"source"`
	PartitionUsage
}

// PartitionUsage is how much of a partition is free now. What is not known is zero.
type PartitionUsage struct {
	CPUs     int `json:"cpus,omitempty"`
	FreeCPUs int `json:"freeCpus,omitempty"`
	GPUs     int `json:"gpus,omitempty"`
	FreeGPUs int `json:"freeGpus,omitempty"`
	NodeCPUs int `json:"nodeCpus,omitempty"` // of its largest node
	NodeMB   int `json:"nodeMb,omitempty"`   // memory of its largest node
}

// EnvironmentKind says how a builtin job gets an environment.
type EnvironmentKind string

// The kinds of environments.
const (
	EnvironmentVenv      EnvironmentKind = "venv"
	EnvironmentConda     EnvironmentKind = "conda"
	EnvironmentModule    EnvironmentKind = "module"
	EnvironmentContainer EnvironmentKind = "container"
	EnvironmentPath      EnvironmentKind = "path" // on the PATH of a login shell
)

// Environment is an installation of Jupyter.
type Environment struct {
	Kind    EnvironmentKind `json:"kind"`
	Path    string          `json:"path"`              // a folder, an image, a module's name or a program
	App     string          `json:"app,omitempty"`     // "jupyterlab", "notebook" or "jupyter_server"; none of an image
	Version string          `json:"version,omitempty"` // of App
	Source  string          `json:"source"`
}

// JobScript is a job script of the user's that starts a notebook.
type JobScript struct {
	Path    string `json:"path"`
	Job     string `json:"job,omitempty"`     // the job's name in its directives
	Account string `json:"account,omitempty"` // the account or project in its directives
}
