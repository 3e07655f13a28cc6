# What the look of `tunctl init` runs on a login node, after lines that set mark, end and
# user. It works in every POSIX shell, and what it starts has ended when it ends.

# end_tree PID: ends a process and its children.
end_tree() {
	kill -STOP "$1" # so that it starts no more
	for child in $(ps -A -o pid= -o ppid= | awk -v parent="$1" '$2 == parent { print $1 }'); do
		end_tree "$child"
	done
	kill -KILL "$1"
}

# limit SECONDS COMMAND...: runs a program or a function, and ends it with its children
# after some seconds. timeout(1) is missing on some systems and runs no functions.
limit() {
	seconds=$((end - $(date +%s)))
	if [ "$seconds" -gt "$1" ]; then seconds=$1; fi
	if [ "$seconds" -le 0 ]; then return 137; fi
	shift
	"$@" </dev/null &
	pid=$!
	{
		trap 'kill "$!"; exit' TERM
		sleep "$seconds" &
		wait "$!" && end_tree "$pid"
	} >/dev/null 2>&1 &
	timer=$!
	wait "$pid"
	set -- "$?"
	kill "$timer"
	wait "$timer"
	return "$1"
}

# part NAME SECONDS BYTES COMMAND...: prints what a command prints, under a heading.
part() {
	part=$1 part_seconds=$2 part_bytes=$3
	shift 3
	command -v "$1" >/dev/null || return 0
	printf '\n%s %s\n' "$mark" "$part"
	{
		limit "$part_seconds" "$@"
		if [ $? -eq 137 ]; then printf '\n%s late\n' "$mark"; fi
	} | head -c "$part_bytes"
}

# jupyter_in KIND FOLDER NAME: prints the environment in a folder under that name if it has
# Jupyter. Its version is in the name of its metadata: starting Python would take seconds.
jupyter_in() {
	for app in jupyterlab notebook jupyter_server; do
		for info in "$2"/lib*/python*/*-packages/"$app"-*-info; do
			[ -e "$info" ] && printf '%s\t%s\t%s\t%s\n' "$1" "$3" "$app" "${info##*/}" && return
		done
	done
}

# environments prints the virtual environments, conda environments and images below home,
# which may be a link: hence the slash after it.
environments() {
	{
		head -n 50 "$HOME/.conda/environments.txt" | sed 's|$|/conda-meta|'
		find "$HOME/" -maxdepth 4 \( -name site-packages -o -name node_modules -o -name pkgs -o -name .git -o -name .cache \
			-o -name .snapshot -o -name .tunctl \) -prune -o \( -name pyvenv.cfg -o -name conda-meta -o -name '*.sif' \) -print |
			head -n 300
	} | while IFS= read -r found; do
		case $found in
		*.sif) printf 'container\t%s\n' "$found" ;;
		*/pyvenv.cfg) jupyter_in venv "${found%/*}" "${found%/*}" ;;
		*) jupyter_in conda "${found%/*}" "${found%/*}" ;;
		esac
	done
}

# on_path prints the Jupyter that a login shell finds, which may be a link.
on_path() {
	program=$(command -v jupyter) || return 0
	for file in "$program" "$(readlink -f "$program")"; do
		case $file in /*/bin/*) jupyter_in path "${file%/bin/*}" "$program" ;; esac
	done | head -n 1
}

# module_names prints the modules whose names say Jupyter.
module_names() { module -t avail 2>&1 | grep -i jupyter | head -n 100; }

# scripts prints the job scripts that start a notebook, each with its directives.
scripts() {
	find "$HOME/" -maxdepth 3 -name '.?*' -prune -o -type f -size -128 \( -name '*.sh' -o -name '*.bash' -o -name '*.sbatch' \
		-o -name '*.slurm' -o -name '*.pbs' -o -name '*.qsub' -o -name '*.sge' -o -name '*.job' -o -name '*.batch' -o -name '*.sub' \) -print |
		head -n 200 | while IFS= read -r file; do
		if grep -Eq '^[^#]*jupyter[- ]("?\$|lab|notebook|server)' "$file" && grep -Eq '^#(SBATCH|PBS|\$) ' "$file"; then
			printf 'script\t%s\n' "$file"
			grep -E '^#(SBATCH|PBS|\$) ' "$file" | head -n 40
		fi
	done
}
