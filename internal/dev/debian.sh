#!/bin/bash
# debian.sh RELEASE GROUPS COMMAND... - run a command as root on another Debian (12, 13 or a
# code name) that has the packages of the named GROUPS of install.sh ("" for all).
#
# Its root is made by debootstrap once, from the mirror that this machine's apt uses or
# TUNCTL_DEBIAN_MIRROR, and stays below /var/cache/tunctl. The command has namespaces of its own
# (mount, pid, uts, ipc, net), and besides that root only this checkout and Go with its caches. The
# root is entered by pivot_root: the lab's nodes would otherwise see the machine's.
set -euo pipefail

die() {
	echo "debian.sh: $*" >&2
	exit 1
}

# mount_root mounts in a mount namespace what the root needs, and makes it the root.
mount_root() {
	local root=$1 dir
	shift
	mount --make-rprivate /
	mount --bind "$root" "$root"
	mount -t proc proc "$root/proc"
	mount -t sysfs sysfs "$root/sys"
	mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
	mount --rbind /dev "$root/dev"
	for dir in /dev/shm /tmp /run; do
		mount -t tmpfs -o mode=1777 tmpfs "$root$dir"
	done
	chmod 755 "$root/run"
	for dir; do
		mkdir -p "$root$dir"
		mount --bind "$dir" "$root$dir"
	done
	cd "$root"
	pivot_root . .
	umount -l .
}

# As pid 1 of the namespaces: enter the root, and run the command. It is no exec, since pid 1 has
# to wait for processes whose parents are gone.
if [ "${1:-}" = inside ]; then
	root=$2 name=$3
	mapfile -t shared <<<"$4"
	shift 4
	mount_root "$root" "${shared[@]}"
	hostname "$name"
	ip link set lo up 2>/dev/null || true # the first time there is no ip, and the machine's network
	cd "${shared[0]}"
	"$@"
	exit
fi

[ $# -ge 3 ] || die "usage: debian.sh RELEASE GROUPS COMMAND..."
[ "$(id -u)" = 0 ] || die "not root; run it with sudo"
checkout=$(cd "$(dirname "$0")/../.." && pwd)
case $1 in
12) suite=bookworm ;;
13) suite=trixie ;;
14) suite=forky ;;
*[!a-z]* | "") die "no Debian \"$1\": 12, 13, or a code name such as forky" ;;
*) suite=$1 ;;
esac
groups=$2
shift 2
name=debian-$suite
root=/var/cache/tunctl/$name

# mirror prints where this machine gets Debian from. A list of mirrors has one a line.
mirror() {
	local codename uri
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	uri=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' | awk -v name="$codename" '$1 == name { print $2; exit }')
	case $uri in
	mirror+file:*) uri=$(awk '!/^#/ && NF { print $1; exit }' "$(sed 's|^mirror+file:||; s|/$||' <<<"$uri")") ;;
	esac
	[ -n "$uri" ] || die "the apt of this machine names no mirror of Debian: set TUNCTL_DEBIAN_MIRROR"
	echo "$uri"
}

make_root() {
	local script=
	"$checkout/internal/dev/install.sh" debian
	from=${TUNCTL_DEBIAN_MIRROR:-$(mirror)}
	# The scripts of all newer releases are that of sid.
	[ -e "/usr/share/debootstrap/scripts/$suite" ] || script=/usr/share/debootstrap/scripts/sid
	echo "Making a root of Debian $suite in $root from $from"
	rm -rf "$root.new"
	# Nothing of it has to survive a power cut.
	debootstrap --variant=minbase "$suite" "$root.new" "$from" $script >"$root.log" ||
		die "the root was not made; why stands in $root.log"
	echo force-unsafe-io >"$root.new/etc/dpkg/dpkg.cfg.d/unsafe-io"
	# The list of a release that is being made may be older than it says it may be.
	echo 'Acquire::Check-Valid-Until "false";' >"$root.new/etc/apt/apt.conf.d/90expired"
	printf '127.0.0.1 localhost %s\n::1 localhost\n' "$name" >"$root.new/etc/hosts"
	mv "$root.new" "$root"
}

# inside runs a command in the root, with unshare's options first.
inside() {
	local options=() shared
	while [[ $1 == --* ]]; do
		options+=("$1")
		shift
	done
	shared=$checkout
	for dir in "$(git -C "$checkout" rev-parse --path-format=absolute --git-common-dir)" "$(go env GOROOT)" "$(go env GOMODCACHE)" "$(go env GOCACHE)"; do
		shared+=$'\n'$dir
	done
	unshare --mount --pid --fork --kill-child --uts --ipc "${options[@]}" \
		"$checkout/internal/dev/debian.sh" inside "$root" "$name" "$shared" \
		env -i HOME=/root USER=root LANG=C.UTF-8 TERM="${TERM:-dumb}" CI="${CI:-}" \
		PATH="$(go env GOROOT)/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
		GOMODCACHE="$(go env GOMODCACHE)" GOCACHE="$(go env GOCACHE)" GOFLAGS=-mod=readonly GOPROXY=off GOTOOLCHAIN=local "$@"
}

cd "$checkout"
go mod download
mkdir -p /var/cache/tunctl
(
	flock 9
	[ -e "$root" ] || make_root
	cp -L /etc/resolv.conf "$root/etc/resolv.conf"
	# shellcheck disable=SC2086 # several groups
	inside internal/dev/install.sh $groups
	rm -f "$root"/var/cache/apt/archives/*.deb
) 9>"$root.lock"
inside --net "$@"
