#!/bin/sh
# install.sh OLD.deb NEW.deb - installs a package in a copy of this system that is
# gone afterwards, uses it as an ordinary user, upgrades it under a running agent,
# removes it, and says what is left. Runs as root in a mount and pid namespace of
# its own: unshare --mount --pid --fork --kill-child.
set -eu

root=$(mktemp -d)
mount -t tmpfs -o mode=755 tmpfs "$root"
mkdir "$root/changes" "$root/work" "$root/system"
system=$root/system
mount -t overlay -o "lowerdir=/,upperdir=$root/changes,workdir=$root/work" overlay "$system"
mount -t proc proc "$system/proc"
mount --rbind /dev "$system/dev"
mount -t tmpfs tmpfs "$system/run"
mount -t tmpfs -o mode=1777 tmpfs "$system/tmp"
cp "$1" "$system/tmp/old.deb"
cp "$2" "$system/tmp/new.deb"

in_system() { chroot "$system" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp/home LC_ALL=C.UTF-8 "$@"; }
as_person() { in_system setpriv --reuid 54321 --regid 54321 --clear-groups --no-new-privs "$@"; }

# changes lists what differs from the system below; dpkg's own books do not count.
changes() {
	(cd "$root/changes" && find . ! -type d | grep -Ev '^\./(var/(lib/dpkg|log|cache)|tmp|run)/') | sort |
		while read -r file; do cmp -s "$root/changes/$file" "/$file" || echo "$file"; done
}

echo "== install"
in_system useradd --uid 54321 --home-dir /tmp/home --create-home --shell /bin/bash student
before=$(changes)
in_system dpkg -i /tmp/old.deb
in_system dpkg --verify tunctl-agent

echo "== use"
as_person tunctl version
as_person tunctl demo --once --page
in_system man -w tunctl-up
as_person bash -c 'source /usr/share/bash-completion/completions/tunctl; COMP_WORDS=(tunctl sta); COMP_CWORD=1; _tunctl; echo "completes: ${COMPREPLY[*]}"'

echo "== upgrade"
as_person tunctl agent start
in_system dpkg -i /tmp/new.deb
as_person tunctl agent status
as_person tunctl agent restart
as_person tunctl agent status
as_person tunctl agent stop

echo "== remove"
in_system dpkg --purge tunctl-agent
left=$(changes)
if [ "$left" != "$before" ]; then
	printf 'left behind:\n%s\n' "$left"
	exit 1
fi
echo "nothing is left"
