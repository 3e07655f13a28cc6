# system.sh - a copy of this system that is gone afterwards, with an ordinary user in
# it; for scripts that run as root in a mount and pid namespace of their own:
# unshare --mount --pid --fork --kill-child.

root=$(mktemp -d)
mount -t tmpfs -o mode=755 tmpfs "$root"
mkdir "$root/changes" "$root/work" "$root/system"
system=$root/system
mount -t overlay -o "lowerdir=/,upperdir=$root/changes,workdir=$root/work" overlay "$system"
mount -t proc proc "$system/proc"
mount -t tmpfs -o mode=755 tmpfs "$system/dev"
for device in null zero full random urandom tty; do # each alone: nothing done to the copy's /dev is done to ours
	touch "$system/dev/$device"
	mount --bind "/dev/$device" "$system/dev/$device"
done
mkdir "$system/dev/pts" "$system/dev/shm"
mount -t devpts -o ptmxmode=666 devpts "$system/dev/pts"
ln -s pts/ptmx "$system/dev/ptmx"
ln -s /proc/self/fd "$system/dev/fd"
mount -t tmpfs -o mode=1777 tmpfs "$system/dev/shm"
mount -t tmpfs tmpfs "$system/run"
mount -t tmpfs -o mode=1777 tmpfs "$system/tmp"

in_system() { chroot "$system" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp/home LC_ALL=C.UTF-8 "$@"; }
as_person() { in_system setpriv --reuid 54321 --regid 54321 --clear-groups --no-new-privs "$@"; }

# changes lists what differs from the system below. The packagers' own books do not count, nor
# does the index of icons, which every package rebuilds in the order of the file system, if
# our icon is not in it.
changes() {
	(cd "$root/changes" && find . ! -type d | grep -Ev '^\./(var/(lib/dpkg|log|cache)|tmp|run)/') | sort |
		while read -r file; do
			case $file in
			*/icon-theme.cache) ! grep -q tunctl "$root/changes/$file" || echo "$file" ;;
			*) cmp -s "$root/changes/$file" "/$file" || echo "$file" ;;
			esac
		done
}

in_system useradd --uid 54321 --home-dir /tmp/home --create-home --shell /bin/bash student
before=$(changes)

# nothing_left says so, or what is left.
nothing_left() {
	left=$(changes)
	if [ "$left" != "$before" ]; then
		printf 'left behind:\n%s\n' "$left"
		exit 1
	fi
	echo "nothing is left"
}
