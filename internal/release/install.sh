#!/bin/sh
# Installs snapctl for this user: see usage below.
#
# The archive must have the checksum that SHA256SUMS of the release says; nothing is installed else.
set -eu

fail() {
	printf 'install.sh: %s\n' "$1" >&2
	exit 1
}

usage() {
	cat <<'END'
install.sh installs snapctl for this user:

  curl -fsSL https://github.com/boocode/filestore/releases/latest/download/install.sh | sh

  --dir DIR          put the programs there (default ~/.local/bin)
  --version VERSION  that one, as 1.2.0 (default the newest)
  --from PLACE       take the files from a directory or another URL

With options: ... | sh -s -- --dir /opt/bin
END
}

main() {
	dir=${HOME-}/.local/bin version= from=
	while [ $# -gt 0 ]; do
		case $1 in
		-h | --help)
			usage
			return
			;;
		--dir | --version | --from) [ $# -ge 2 ] || fail "$1: a value is missing" ;;
		esac
		case $1 in
		--dir) dir=$2 ;;
		--version) version=${2#v} ;;
		--from) from=${2#file://} from=${from%/} ;;
		*) fail "unknown argument: $1 (see --help)" ;;
		esac
		shift 2
	done
	[ "$dir" != /.local/bin ] || fail "HOME is not set: name a directory with --dir"
	releases=https://github.com/boocode/filestore/releases
	if [ -z "$from" ] && [ -n "$version" ]; then
		from=$releases/download/v$version
	fi
	from=${from:-$releases/latest/download}

	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "there is no archive for $(uname -s): see docs/guide/install.md" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no archive for $(uname -m): see docs/guide/install.md" ;;
	esac

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	get SHA256SUMS
	archive=$(awk -v pattern="^snapctl_${version:-[^_]*}_${os}_$arch[.]tar[.]gz\$" '$2 ~ pattern { print $2 }' "$work/SHA256SUMS")
	case $archive in
	'') fail "$from has no archive of ${version:-any version} for $os/$arch" ;;
	*[!A-Za-z0-9._+-]*) fail "SHA256SUMS of $from names more than one archive for $os/$arch" ;;
	esac
	get "$archive"
	want=$(awk -v name="$archive" '$2 == name { print $1 }' "$work/SHA256SUMS")
	have=$(sum "$work/$archive")
	[ "$want" = "$have" ] || fail "$archive has checksum $have, want $want: nothing was installed"

	tar -xzf "$work/$archive" -C "$work"
	unpacked=$work/${archive%.tar.gz}
	mkdir -p "$dir"
	for program in snapctl-checkpoints snapctl; do # the old one goes on where it runs
		cp "$unpacked/$program" "$dir/.$program.$$"
		mv -f "$dir/.$program.$$" "$dir/$program"
	done
	version=$("$dir/snapctl" version) || fail "$dir/snapctl was installed, and does not run here"
	printf 'installed %s\n' "$version"
	case $dir in
	*/bin)
		share=${dir%/bin}/share
		for page in "$unpacked"/man/*.1; do put man/man1 "${page##*/}" "$page"; done
		put bash-completion/completions snapctl "$unpacked/completions/snapctl.bash"
		put zsh/site-functions _snapctl "$unpacked/completions/_snapctl"
		put fish/vendor_completions.d snapctl.fish "$unpacked/completions/snapctl.fish"
		;;
	esac
	case :$PATH: in
	*:"$dir":*) ;;
	*)
		printf 'It is in %s, which is not in PATH. For this shell, and at the end of ~/.profile:\n' "$dir"
		printf "  export PATH='%s':\$PATH\n" "$dir"
		;;
	esac
}

# get NAME: a file of the release, in $work.
get() {
	case $from in
	http://* | https://*)
		if command -v curl >/dev/null; then
			curl -fsSL -o "$work/$1" "$from/$1" || fail "cannot download $from/$1"
		elif command -v wget >/dev/null; then
			wget -q -O "$work/$1" "$from/$1" || fail "cannot download $from/$1"
		else
			fail "neither curl nor wget is installed"
		fi
		;;
	*) cp "$from/$1" "$work/$1" || fail "there is no $from/$1" ;;
	esac
}

# sum FILE: its SHA-256, in hex.
sum() {
	if command -v sha256sum >/dev/null; then
		sha256sum "$1" | cut -d ' ' -f 1
	elif command -v shasum >/dev/null; then
		shasum -a 256 "$1" | cut -d ' ' -f 1
	else
		fail "neither sha256sum nor shasum is installed: the archive cannot be verified"
	fi
}

# put DIRECTORY NAME FILE: a file in $share. That it cannot is no failure: the programs are installed.
put() {
	{ mkdir -p "$share/$1" && cp "$3" "$share/$1/$2"; } 2>/dev/null || :
}

main "$@" # at the end: half of a download does nothing
