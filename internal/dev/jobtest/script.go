package jobtest

import "regexp"

// MarkOf finds the mark of a script.
var MarkOf = regexp.MustCompile(`(tunctl-\w+)\.begin`)

// LogAsked finds the logs that a script asks for, and the mark of their parts.
var LogAsked = regexp.MustCompile(`set -- '/h/slurm-(\w+)\.out'\ntunctl_read (tunctl-\w+)`)
