#!/bin/sh
# Prepares the standard trees of the benchmarks below a directory, all or those
# that are named:
#
#	bench/trees.sh DIR [NAME...]
#
#	DIR/go-src    the sources of the Go distribution in use
#	DIR/go-old    those of the release before
#	DIR/linux     Debian's linux-source-6.1
#	DIR/nm        a package.json with the node_modules of a web project
#
# A tree that is there already is left as it is. The Linux sources are
# installed by apt-get unless they are there, which needs root; node_modules
# needs npm and a registry, the older Go its module proxy.
set -eu

if [ $# -lt 1 ]; then
	echo "usage: $0 DIR [NAME...]" >&2
	exit 2
fi
mkdir -p "$1"
cd "$1"
shift
[ $# -gt 0 ] || set -- go-src go-old linux nm

# A tree gets its name when it is whole: what was left by a run that failed
# does not pass for one.
rm -rf tree.tmp

go_src() {
	cp -a "$(go env GOROOT)/src" tree.tmp
}

go_old() {
	cp -a "$(GOTOOLCHAIN=go1.25.4 go env GOROOT)/src" tree.tmp
	chmod -R u+w tree.tmp # the module cache is read-only
}

linux() {
	sources=/usr/src/linux-source-6.1.tar.xz
	if [ ! -e $sources ]; then
		apt-get install -y --no-install-recommends linux-source-6.1
	fi
	mkdir tree.tmp
	tar -xJf $sources -C tree.tmp --strip-components=1
	# Debian ignores all but its own directory at the top.
	sed -i -e '\|^/\*$|d' -e '\|^!/debian/$|d' tree.tmp/.gitignore
}

nm() {
	mkdir tree.tmp
	echo '{"private": true}' >tree.tmp/package.json
	npm install --prefix tree.tmp --ignore-scripts --no-audit --no-fund \
		typescript webpack eslint react react-dom jest next
}

for tree; do
	case $tree in
	go-src | go-old | linux | nm) ;;
	*)
		echo "$0: no tree $tree" >&2
		exit 2
		;;
	esac
	if [ ! -e "$tree" ]; then
		"$(echo "$tree" | tr - _)"
		mv tree.tmp "$tree"
	fi
done
