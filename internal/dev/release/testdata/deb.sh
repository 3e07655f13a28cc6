#!/bin/sh
# deb.sh OLD.deb NEW.deb - installs a package in the system of system.sh, uses it as an
# ordinary user, upgrades it under a running agent, removes it, and says what is left.
set -eu
. "$(dirname "$0")/system.sh"
cp "$1" "$system/tmp/old.deb"
cp "$2" "$system/tmp/new.deb"

echo "== install"
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
nothing_left
