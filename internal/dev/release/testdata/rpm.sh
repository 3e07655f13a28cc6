#!/bin/sh
# rpm.sh OLD.rpm NEW.rpm - looks at a package, installs it in the system of system.sh,
# uses it as an ordinary user, upgrades it, removes it, and says what is left.
set -eu
. "$(dirname "$0")/system.sh"
cp "$1" "$system/tmp/old.rpm"
cp "$2" "$system/tmp/new.rpm"

in_rpm() { in_system rpm --dbpath /tmp/rpmdb "$@"; }

echo "== look"
in_rpm -qp --qf '[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\n]' /tmp/old.rpm
scripts=$(in_rpm -qp --scripts /tmp/old.rpm)
echo "scripts: ${scripts:-none}"
needs=$(in_rpm -qp --requires /tmp/old.rpm | grep -v '^rpmlib(' || true)
echo "needs: ${needs:-nothing}"

echo "== install"
in_rpm -i /tmp/old.rpm
in_rpm -V tunctl-agent

echo "== use"
as_person tunctl version
as_person tunctl demo --once --page
in_system man -w tunctl-up

echo "== upgrade"
in_rpm -U /tmp/new.rpm
in_rpm -V tunctl-agent
as_person tunctl version

echo "== remove"
in_rpm -e tunctl-agent
nothing_left
