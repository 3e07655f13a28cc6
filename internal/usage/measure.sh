# Prints one reading for each line of its input. $job is set.
exec 2>/dev/null
export LC_ALL=C
job=${SLURM_JOB_ID:-$job}

# within prints the part of a cgroup's path up to the folder of the job.
within() {
	printf '%s\n' "$1" | job=$job awk -F / '{
		job = ENVIRON["job"]
		for (i = 2; i <= NF; i++) {
			at = at "/" $i
			if ($i == job || $i == "job_" job || index($i, job ".") == 1 || index($i, "-" job ".") || index($i, "_" job ".")) { print at; exit }
		}
	}'
}

# The folders of the job: of cgroup 2, or one for each controller of cgroup 1.
unified= cpuacct= memory= cpuset=
while IFS=: read -r number names path; do
	at=$(within "$path")
	test -n "$at" || continue
	case ,$names, in
	,,) for root in /sys/fs/cgroup /sys/fs/cgroup/unified; do
		if test -r "$root$at/cpu.stat"; then unified=$root$at; fi
	done ;;
	*,cpuacct,*) cpuacct=/sys/fs/cgroup/cpuacct$at ;;
	*,memory,*) memory=/sys/fs/cgroup/memory$at ;;
	*,cpuset,*) cpuset=/sys/fs/cgroup/cpuset$at ;;
	esac
done </proc/self/cgroup

# What Slurm gave the job on each node: 4, or 4(x2) for two nodes; of different ones, not known.
case $SLURM_JOB_CPUS_PER_NODE in
*[!0-9x\(\)]*) granted= ;;
*) granted=${SLURM_JOB_CPUS_PER_NODE%%(*} ;;
esac

limited() { if command -v timeout >/dev/null; then timeout 10 "$@"; else "$@"; fi; }
field() { sed -n "s/^$1 //p" "$2"; }
number() { case $2 in '' | *[!0-9]*) ;; *) printf '%s %s\n' "$1" "$2" ;; esac; }

# processes prints what the job's processes use, for a node without a cgroup for the job.
# Pages that several of them share count for each.
processes() {
	name=$(printf %s "$job" | sed 's/[][\.*^$]/\\&/g')
	grep -lszx -e "SLURM_JOB_ID=$name" -e "PBS_JOBID=$name" -e "JOB_ID=$name" -e "tunctl_dir=.*/$name" /proc/[0-9]*/environ |
		while read -r f; do
			case $f in "/proc/$$/"*) ;; *) cat "${f%environ}stat" ;; esac
		done | sed 's/^.*) //' |
		awk -v tick="$(getconf CLK_TCK || echo 100)" -v page="$(getconf PAGESIZE || echo 4096)" '
			{ cpu += $12 + $13 + $14 + $15; memory += $22 }
			END { if (NR) printf "cpu %.0f\nmem %.0f\n", cpu / tick * 1e6, memory * page }'
}

cpu_and_memory() {
	cpu= mem= max=
	if test -n "$unified"; then
		cpu=$(field usage_usec "$unified/cpu.stat")
		read -r mem <"$unified/memory.current"
		read -r max <"$unified/memory.max"
		mem=$((${mem:-0} - $(field inactive_file "$unified/memory.stat") + 0)) # the system takes these files back for a program
	fi
	if test -z "$cpu" && test -n "$cpuacct" && read -r cpu <"$cpuacct/cpuacct.usage"; then
		cpu=${cpu%???} # of nanoseconds
	fi
	if test "${mem:-0}" -le 0 && test -n "$memory" && read -r mem <"$memory/memory.usage_in_bytes"; then
		read -r max <"$memory/memory.limit_in_bytes"
		mem=$((mem - $(field total_inactive_file "$memory/memory.stat") + 0))
	fi
	if test -n "$cpu" && test "${mem:-0}" -gt 0; then
		number cpu "$cpu"
		number mem "$mem"
	else
		processes
	fi
	case $max in '' | *[!0-9]* | ???????????????????*) # no limit; cgroup 1 has a huge number for that
		max=
		if test -n "$SLURM_MEM_PER_NODE"; then
			max=$((SLURM_MEM_PER_NODE * 1048576))
		elif test -n "$SLURM_MEM_PER_CPU" && test -n "$granted"; then
			max=$((SLURM_MEM_PER_CPU * granted * 1048576))
		fi
		;;
	esac
	number limit "$max"
}

cpus() {
	list=
	if test -n "$unified"; then read -r list <"$unified/cpuset.cpus.effective"; fi
	if test -z "$list" && test -n "$cpuset"; then read -r list <"$cpuset/cpuset.cpus"; fi
	printf 'cpus %s\n' "${list:-#${granted:-${SLURM_CPUS_ON_NODE:-${NCPUS:-${NSLOTS:-$(nproc)}}}}}"
	number granted "$granted" # where jobs are not bound to CPUs, the list has all of the node
}

# A job of Slurm without GPUs must not show those of others.
gpus=yes
test -z "$SLURM_JOB_ID" || test -n "$CUDA_VISIBLE_DEVICES$SLURM_JOB_GPUS$SLURM_GPUS_ON_NODE$ROCR_VISIBLE_DEVICES$GPU_DEVICE_ORDINAL" || gpus=
case ${CUDA_VISIBLE_DEVICES-0} in -1 | NoDevFiles | '') gpus= ;; esac

nvidia() {
	command -v nvidia-smi >/dev/null || return
	set -- --query-gpu=name,utilization.gpu,memory.used,memory.total --format=csv,noheader,nounits
	out=
	if test -n "$CUDA_VISIBLE_DEVICES"; then out=$(limited nvidia-smi -i "$CUDA_VISIBLE_DEVICES" "$@") || out=; fi
	if test -z "$out"; then out=$(limited nvidia-smi "$@") || out=; fi
	printf '%s\n' "$out" | sed -n 's/^./nvidia &/p'
}

rocm() {
	command -v rocm-smi >/dev/null || return
	set -- --showproductname --showuse --showmeminfo vram --csv
	case $ROCR_VISIBLE_DEVICES in '' | *[!0-9,]*) ;; *) set -- -d $(printf %s "$ROCR_VISIBLE_DEVICES" | tr , ' ') "$@" ;; esac
	limited rocm-smi "$@" | sed -n 's/^./rocm &/p'
}

while read -r _; do
	read -r clock _ </proc/uptime
	printf 'clock %s\n' "$clock"
	cpu_and_memory
	cpus
	printf 'node %s\n' "$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo) * 1024))"
	if test -n "$gpus"; then
		nvidia
		rocm
	fi
	echo .
done
