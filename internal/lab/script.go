package lab

import _ "embed"

var (
	//go:embed scripts/practice.slurm
	slurmScript string
	//go:embed scripts/practice.pbs
	pbsScript string
)

// JobScript is the built-in practice job for a dialect. It has the shape of a real
// one: it picks a port, says where it will listen, and serves.
func JobScript(dialect string) string {
	if dialect == PBS {
		return pbsScript
	}
	return slurmScript
}
