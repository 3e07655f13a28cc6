#!/bin/sh
# wheel.sh OLDER NEWER - installs a wheel with pip in an environment of an ordinary user, in
# the system of system.sh, uses it, upgrades it under a running agent, uninstalls it, and
# says what is left. OLDER and NEWER are wheels.
set -eu
. "$(dirname "$0")/system.sh"
mkdir "$system/tmp/older" "$system/tmp/newer"
cp "$1" "$system/tmp/older"
cp "$2" "$system/tmp/newer"

env=/tmp/home/env
tunctl=$env/bin/tunctl
pip() { as_person $env/bin/pip --no-cache-dir --disable-pip-version-check "$@"; }
# files lists what is in the environment; Python compiles modules as it uses them.
files() { (cd "$system$env" && find . ! -type d ! -name '*.pyc' | sort); }

as_person /usr/bin/python3 -m venv $env
files >"$root/before"

echo "== install"
pip install --no-index --find-links /tmp/older tunctl-agent
pip show --files tunctl-agent
pip check

echo "== use"
as_person $tunctl version
as_person $tunctl demo --once --page
as_person env PATH="$env/bin:/usr/bin:/bin" man -w tunctl-up
as_person $tunctl autostart on
as_person grep -rh ^Exec /tmp/home/.config

echo "== upgrade"
as_person $tunctl agent start
pip install --no-index --find-links /tmp/newer --upgrade tunctl-agent
as_person $tunctl agent status
as_person $tunctl autostart status
as_person $tunctl agent restart
as_person $tunctl agent status
as_person $tunctl autostart off
as_person $tunctl agent stop

echo "== uninstall"
pip uninstall --yes tunctl-agent
files | diff "$root/before" - && echo "the environment is as it was"
nothing_left
