#!/bin/sh
# Runs the Go benchmarks of a commit and of the working tree in turn, and
# prints what benchstat makes of the two:
#
#	bench/ref.sh REF
#
# From the environment:
#
#	PKG    directories of packages, default "./internal/cas ./internal/capture ./internal/livedir ./manager ./patch"
#	BENCH  which benchmarks, a regular expression; default all
#	COUNT  how often each is run on either side, default 10
#	TIME   how long, or how many times (100x), in each run; default 1s
#	ARGS   more arguments for the test binaries, e.g. -bench.files=80000
#
# Both are compiled before the first run, so that the working tree may be
# edited meanwhile. A package that the commit does not have has one side only.
set -eu

if [ $# -ne 1 ]; then
	echo "usage: $0 REF" >&2
	exit 2
fi
cd "$(dirname "$0")/.."
top=$(pwd)
pkgs=${PKG:-./internal/cas ./internal/capture ./internal/livedir ./manager ./patch}
tmp=$(mktemp -d)
cleanup() {
	cd "$top"
	git worktree remove --force "$tmp/ref" 2>/dev/null || true
	rm -rf "$tmp"
	git worktree prune
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

git worktree add --quiet --detach "$tmp/ref" "$1"
commit=$(git -C "$tmp/ref" rev-parse --short HEAD)

# compile DIR SIDE makes a test binary of each package.
compile() {
	for pkg in $pkgs; do
		[ -d "$1/$pkg" ] || continue
		mkdir -p "$tmp/$2/$pkg"
		(cd "$1" && go test -c -o "$tmp/$2/$pkg/test" "$pkg")
	done
	: >"$tmp/$2.txt"
}

# measure DIR SIDE runs the benchmarks of each package once.
measure() {
	for pkg in $pkgs; do
		[ -x "$tmp/$2/$pkg/test" ] || continue
		(cd "$1/$pkg" && "$tmp/$2/$pkg/test" -test.run '^$' -test.timeout 0 \
			-test.bench "${BENCH:-.}" -test.benchtime "${TIME:-1s}" ${ARGS:-}) >"$tmp/run" || {
			cat "$tmp/run" >&2
			exit 1
		}
		cat "$tmp/run" >>"$tmp/$2.txt"
	done
}

compile "$tmp/ref" old
compile "$top" new
i=0
while [ "$i" -lt "${COUNT:-10}" ]; do
	i=$((i + 1))
	echo "round $i of ${COUNT:-10}" >&2
	measure "$tmp/ref" old
	measure "$top" new
done
go tool -modfile=internal/tools/go.mod benchstat "$commit=$tmp/old.txt" "here=$tmp/new.txt"
