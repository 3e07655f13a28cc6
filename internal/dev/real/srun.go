package real

import "strings"

// Commands of other releases of Slurm, for [Cluster.WrapSrun]: the lab's own is Debian's.
const (
	// SrunWithoutOverlap is srun before 20.11: it does not know the option, and steps share
	// the job's processors without it.
	SrunWithoutOverlap = `for word; do
	case $word in
	--overlap) echo "srun: unrecognized option '--overlap'" >&2; exit 1 ;;
	-*) ;;
	*) break ;;
	esac
done
exec "$SRUN" "$@"
`
	// SrunWaitsForMemory is srun from 20.11 to 21.08, where the job's own script has all of
	// its memory: a step waits, unless it asks for none, or is to start within some seconds.
	SrunWaitsForMemory = `wait=600
for word; do
	case $word in
	--mem=0) exec "$SRUN" "$@" ;;
	--immediate=*) wait=${word#*=} ;;
	-*) ;;
	*) break ;;
	esac
done
echo "srun: Job step creation temporarily disabled, retrying (Requested nodes are busy)" >&2
sleep "$wait"
echo "srun: error: Unable to create step for job: Requested nodes are busy" >&2
exit 1
`
)

// SbatchWithoutTest is the sbatch of a site whose wrapper does not pass --test-only on: for
// jobs with a comment, so that others can go on testing theirs.
const SbatchWithoutTest = `case " $* " in
*" --comment=no-test "*)
	for word; do
		shift
		test "$word" = --test-only || set -- "$@" "$word"
	done ;;
esac
exec "$SBATCH" "$@"
`

// WrapSrun replaces srun on login1 with a shell script, to which $SRUN is the real one.
func (c *Cluster) WrapSrun(script string) error { return c.wrap("srun", script) }

// UnwrapSrun undoes WrapSrun.
func (c *Cluster) UnwrapSrun() error { return c.unwrap("srun") }

// WrapSbatch is WrapSrun for sbatch and $SBATCH.
func (c *Cluster) WrapSbatch(script string) error { return c.wrap("sbatch", script) }

// UnwrapSbatch undoes WrapSbatch.
func (c *Cluster) UnwrapSbatch() error { return c.unwrap("sbatch") }

func (c *Cluster) wrap(program, script string) error {
	replace := strings.NewReplacer("srun", program, "SRUN", strings.ToUpper(program)).Replace(`set -e
test -e /run/lab/srun || cp /usr/bin/srun /run/lab/srun
umount /usr/bin/srun 2>/dev/null || true
printf '#!/bin/sh\nSRUN=/run/lab/srun\n%s' "$1" >/run/lab/srun.sh
chmod 755 /run/lab/srun.sh
mount --bind /run/lab/srun.sh /usr/bin/srun`)
	_, err := c.Exec("login1", "sh", "-c", replace, "sh", script)
	return err
}

func (c *Cluster) unwrap(program string) error {
	_, err := c.Exec("login1", "umount", "/usr/bin/"+program)
	return err
}
