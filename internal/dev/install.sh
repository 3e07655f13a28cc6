#!/bin/sh
# install.sh [GROUP...] - the Debian packages that tests on real parts need, by
# group; without a group, all of them. What is installed already costs nothing.
#
#   build       make, a C compiler for the race detector, shellcheck, and python3 for the relay
#   ssh         sshd, one-time codes, nftables, the login shells people have, vi, and Python's SSH libraries
#   slurm       controller, compute daemon, accounting, munge
#   gridengine  server, execution daemon and commands of Grid Engine
#   jupyter     the notebook, the server, and JupyterLab where Debian has it
#   apps        a VNC server, noVNC and a window manager; R with Shiny
#   browser     Chromium
#   bench       what `make bench` compares with; not among "all of them"
#   debian      what `make test-debian` makes the root of another Debian with; not among "all of them"
#   desktop     a bus, a display, a panel, notifications, a keyring
#   wine        Wine, and binutils for Windows
#   package     what looks at our packages: lintian, rpm, rpmlint, groff, pip, and ruby for the formula of Homebrew
set -eu

packages() {
	case $1 in
	build) echo make git gcc libc6-dev shellcheck python3 ;;
	ssh) echo iproute2 nftables openssh-server openssh-client libpam-oath zsh fish tcsh vim-tiny python3-asyncssh fabric ;;
	slurm) echo munge slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins \
		slurm-wlm-mysql-plugin libpam-slurm libpam-slurm-adopt mariadb-server ;;
	# gridengine-common wants mailx, which wants a mail server: this one is no daemon.
	gridengine) echo msmtp-mta gridengine-master gridengine-exec gridengine-client ;;
	# Debian 12 has no JupyterLab.
	jupyter) echo jupyter-notebook jupyter-server python3-ipykernel $(grep -qx 'VERSION_CODENAME=bookworm' /etc/os-release || echo jupyterlab) ;;
	apps) echo tigervnc-standalone-server tigervnc-tools novnc websockify openbox xterm r-base-core r-cran-shiny ;;
	bench) echo autossh ;;
	debian) echo debootstrap ;;
	browser) echo chromium fonts-dejavu-core ;;
	desktop) echo dbus dbus-x11 libglib2.0-bin xvfb xfce4-panel xfce4-notifyd dunst xdotool imagemagick zenity \
		gnome-keyring desktop-file-utils xdg-utils ;;
	wine) echo wine wine64 binutils-mingw-w64-x86-64 ;;
	package) echo lintian rpm rpmlint cpio groff-base man-db ruby python3-venv ;;
	*) die "unknown group \"$1\"; one of: $groups bench debian" ;;
	esac
}

die() {
	echo "install.sh: $*" >&2
	exit 1
}

missing() {
	for package; do
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || echo "$package"
	done
}

# Debian starts a daemon as soon as it is installed, unless this file forbids it.
# Tests start their own, elsewhere, and the machine's must not appear.
forbid_daemons() {
	policy=/usr/sbin/policy-rc.d
	[ -e "$policy" ] && return
	trap 'rm -f "$policy"' EXIT
	trap 'exit 1' HUP INT TERM
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
}

groups="build ssh slurm gridengine jupyter apps browser desktop wine package"
[ $# -gt 0 ] || set -- $groups
wanted=
for group; do
	names=$(packages "$group")
	wanted="$wanted $names"
done

command -v apt-get >/dev/null || die "no apt-get here; what the tests need, as Debian names it:$wanted"
todo=$(missing $wanted)
[ -n "$todo" ] || {
	echo "Nothing to install: the Debian packages of $(echo $*) are there."
	exit 0
}
echo "To install from Debian:" $todo
[ "$(id -u)" = 0 ] || die "not root; run: sudo $0 $*"

# Grid Engine's packages would set up a cluster on the machine. Any of them may ask first.
keep_unconfigured() {
	for package in gridengine-common gridengine-client gridengine-exec gridengine-master; do
		echo "$package shared/gridengineconfig boolean false"
	done | debconf-set-selections
}

forbid_daemons
case " $todo " in *gridengine*) keep_unconfigured ;; esac
export DEBIAN_FRONTEND=noninteractive
apt="apt-get -qq -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0"
echo "Reading the package lists"
$apt update || echo "install.sh: the package lists could not all be refreshed; going on" >&2

# apt says on descriptor 3 how far it is ("dlstatus:0:12.5:Retrieving file 3 of 24"): a line
# for every tenth is shown. What it and dpkg print goes to a file, and is shown if it fails.
log=$(mktemp)
{
	code=0
	$apt -o APT::Status-Fd=3 install -y --no-install-recommends $todo 3>&1 >"$log" 2>&1 || code=$?
	echo "exit:$code"
} | {
	# No awk: mawk, which is Debian's, reads nothing from a pipe before a whole buffer is there.
	last=
	while IFS=: read -r kind where percent what; do
		case $kind in
		dlstatus) doing=fetched ;;
		pmstatus) doing=installed ;;
		exit) exit "$where" ;;
		*) continue ;;
		esac
		percent=${percent%%.*}
		[ "$doing ${percent%?}" = "$last" ] && continue
		last="$doing ${percent%?}"
		echo "  $doing $percent %: $what"
	done
} || {
	cat "$log" >&2
	rm -f "$log"
	die "the packages were not installed; why stands above"
}
rm -f "$log"
