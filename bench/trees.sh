#!/bin/sh
# Prepares the standard trees of the benchmarks below a directory:
#
#	bench/trees.sh DIR
#
#	DIR/go-src    the sources of the Go distribution in use
#	DIR/linux     Debian's linux-source-6.1
#	DIR/nm        a package.json with the node_modules of a web project
#
# A tree that is there already is left as it is. The Linux sources are
# installed by apt-get unless they are there, which needs root; node_modules
# needs npm and a registry.
set -eu

if [ $# -ne 1 ]; then
	echo "usage: $0 DIR" >&2
	exit 2
fi
mkdir -p "$1"
cd "$1"

# A tree gets its name when it is whole: what was left by a run that failed
# does not pass for one.
rm -rf tree.tmp

if [ ! -e go-src ]; then
	cp -a "$(go env GOROOT)/src" tree.tmp
	mv tree.tmp go-src
fi

if [ ! -e linux ]; then
	sources=/usr/src/linux-source-6.1.tar.xz
	if [ ! -e $sources ]; then
		apt-get install -y --no-install-recommends linux-source-6.1
	fi
	mkdir tree.tmp
	tar -xJf $sources -C tree.tmp --strip-components=1
	# Debian ignores all but its own directory at the top.
	sed -i -e '\|^/\*$|d' -e '\|^!/debian/$|d' tree.tmp/.gitignore
	mv tree.tmp linux
fi

if [ ! -e nm ]; then
	mkdir tree.tmp
	echo '{"private": true}' >tree.tmp/package.json
	npm install --prefix tree.tmp --ignore-scripts --no-audit --no-fund \
		typescript webpack eslint react react-dom jest next
	mv tree.tmp nm
fi
