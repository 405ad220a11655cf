#!/bin/sh
# A fleet: N sandboxes, each a process with a home, an identity and a path of its own, that begin
# from one base, work for some turns, push what they did, and are gone. One remote is all that they
# share: a directory, or a bucket.
#
#   ./run.sh [N [TURNS [REMOTE]]]        by default 5 sandboxes, 4 turns, a new directory
#
# With a bucket: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY as ever, and
# REMOTE=s3://BUCKET/PREFIX. It prints what each sandbox took to start and to push, and fails if any
# turn of any sandbox is not in the remote afterwards.
set -eu
n=${1:-5} turns=${2:-4} work=$(mktemp -d)
remote=${3:-$work/remote}
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export BOO_ENGINE=off
case $remote in s3://*) ;; *) mkdir -p "$remote" ;; esac

# The base: what all of them begin from. It is recorded and pushed once.
export HOME=$work/base
mkdir -p "$HOME/project"
cd "$HOME/project"
for d in a b c d; do
  mkdir $d
  for f in 1 2 3 4 5 6 7 8; do head -c 20000 /dev/urandom > $d/$f; done
done
snapctl snapshot -q --session base -m base
snapctl remote init -q "$remote"
snapctl remote add -q origin "$remote"
snapctl remote push -q
export BOO_IDENTITY=$HOME/.config/snapctl/identity.age

# A sandbox: it starts with the files alone, and leaves what is older where it is.
sandbox() {
  export HOME=$work/sandbox$1
  mkdir "$HOME"
  began=$(date +%s%N)
  snapctl clone -q "$remote" "$HOME/w" --lazy --session base
  started=$(date +%s%N)
  cd "$HOME/w"
  t=0
  while [ $t -lt "$turns" ]; do
    head -c 3000 /dev/urandom > "a/$1-$t"
    snapctl snapshot -q --session "sandbox$1" -m "turn $t of $1"
    t=$((t + 1))
  done
  pushing=$(date +%s%N)
  snapctl remote push -q
  ended=$(date +%s%N)
  echo "sandbox $1: started in $(((started - began) / 1000000)) ms, pushed in $(((ended - pushing) / 1000000)) ms"
}

i=0
pids=
while [ $i -lt "$n" ]; do
  (sandbox $i) &
  pids="$pids $!"
  i=$((i + 1))
done
for pid in $pids; do wait "$pid"; done

# Who looks at it afterwards finds all of them. The sandboxes are gone.
export HOME=$work/base
cd "$HOME/project"
rm -rf "$work"/sandbox*
snapctl remote pull -q
snapctl remote check --data
i=0
while [ $i -lt "$n" ]; do
  found=$(snapctl log --oneline "origin:sandbox$i" | grep -c "turn . of $i")
  [ "$found" -ge "$((turns - 1))" ] || { echo "sandbox $i: $found turns of $turns"; exit 1; }
  i=$((i + 1))
done
echo "$n sandboxes, $turns turns each: all are in $remote"
