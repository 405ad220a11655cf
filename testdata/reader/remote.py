#!/usr/bin/env python3
"""Reads a remote in a directory by docs/reference/format-remote.md (the § below; F§: of format.md).

    remote.py REMOTE list              the lines that count, and their records
    remote.py REMOTE ls ID             what a tree, or a coverage, has in it
    remote.py REMOTE cat ID            the content of a blob
    remote.py REMOTE export TREE DIR   writes a tree into an empty directory
    remote.py REMOTE verify            reads all of it, and compares hashes and seals

Of an encrypted remote the keyring is wanted in the file KEYRING of the environment: what age decrypts of the
newest of keys/, or of what FORMAT has. It needs what read.py needs.
"""
import base64, collections, json, os, re, signal, struct, subprocess, sys, tempfile

sys.dont_write_bytecode = True  # testdata is not ours to write into
import gcm
from read import ZERO, Damage, Store, need, split

KEY = "github.com/boocode/filestore 2026-11-25 remote "
NAME = {"keys": r"keys/(\d{8})", "ledger": r"ledger/(\d{8})", "log": r"log/([0-9a-f]{32})/([0-9a-f]{32})/(\d{8})",
        "data": r"data/(\d{8})/([0-9a-f]{32})/([0-9a-f]{64})"}
KEPT, FOLD = 0x80, 0x81
Pack = collections.namedtuple("Pack", "generation line h length index")
Entry = collections.namedtuple("Entry", "number previous hash fields key")  # hash: by which others name it


def b3(text, *args, key=None):
    """BLAKE3 of a text, keyed or to derive a key."""
    with tempfile.NamedTemporaryFile() as f:
        f.write(text)
        f.flush()
        command = ["b3sum", "--no-names", *(["--keyed"] if key else []), *args, f.name]
        return bytes.fromhex(subprocess.run(command, input=key, check=True, capture_output=True).stdout.decode())


def number(b):
    return int.from_bytes(b, "little")


def pack(b):
    need(len(b) == 72, "a pack that an entry names")
    g, line, h, length, index = struct.unpack("<Q16s32sQQ", b)
    return Pack(g, line.hex(), h.hex(), length, index)


def fields(where, body, known):
    pairs, all = list(split(where, body, known)), collections.defaultdict(list)
    need([t for t, _ in pairs] == sorted(t for t, _ in pairs), where + ": order of fields")
    for tag, value in pairs:
        all[tag].append(value)
    return all


class Remote(Store):
    def __init__(self, path, keyring):
        self.path, self.damage, self.cache, self.held, self.keys = path, [], {}, {}, {}
        self.places, self.forgotten, self.pruned = {}, set(), []
        self.packs, self.kept, self.announcement = {}, {}, 0
        self.try_to(self.read_format, keyring)
        self.names = collections.defaultdict(list)
        for dir, _, names in os.walk(path):
            for name in names:
                self.name(os.path.relpath(os.path.join(dir, name), path))
        self.try_to(self.read_ledger)
        self.lines = {}
        for s, line in sorted({m[:2] for m in self.names["log"]} | {(k[1], k[0]) for k in self.kept}):
            self.try_to(self.read_line, s, line)

    def name(self, name):
        kind = name.split("/")[0]
        m = re.fullmatch(NAME.get(kind, "FORMAT"), name)
        if m and m.groups():
            self.names[kind].append(m.groups())
        elif kind in ("log", "data"):
            self.damage.append(name + ": no name of an object")

    def object(self, name):
        try:
            with open(os.path.join(self.path, name), "rb") as f:
                return f.read()
        except FileNotFoundError:
            raise Damage(name + ": it is missing")

    # Keys and seals, §3 and §4.

    def read_format(self, keyring):
        try:
            form = json.loads(self.object("FORMAT"))
            version, self.id, features = form["format"], bytes.fromhex(form["id"]), form["features"]
        except (ValueError, KeyError, TypeError) as e:
            sys.exit("remote.py: FORMAT: %r" % e)
        if version != 1 or features["read"]:
            sys.exit("remote.py: format %s with features %s is not known" % (version, features["read"]))
        need(("keys" in form) != ("plainKeys" in form), "FORMAT: keys")
        if "keys" in form:
            base64.b64decode(form["keys"], validate=True)
            with open(keyring) as f:
                form["plainKeys"] = f.read()
        lines = form["plainKeys"].splitlines()
        if lines[:1] != ["boo-remote-keys 1"]:
            sys.exit("remote.py: that is no keyring")
        keys = [line for line in lines[1:] if not line.startswith("for ")]
        need(lines[1:len(keys) + 1] == keys, "the keyring: its order")
        for i, line in enumerate(keys, 1):
            epoch, key = line.split(" ")
            need(epoch == str(i) and len(key) == 64, "the keyring")
            key = bytes.fromhex(key)
            self.keys[i] = {what: b3(key, "--derive-key", "%s%s v1" % (KEY, what))
                            for what in ("names", "pack", "entry", "seal")}

    def seal(self, epoch, h):
        need(epoch in self.keys, "there is no key of epoch", epoch)
        return b3(h, key=self.keys[epoch]["seal"])

    def s(self, session):
        return b3(session, key=self.keys[1]["names"])[:16].hex()

    # Entries and the ledger, §5 and §7.

    def entry(self, name, magic, known):
        b = self.object(name)
        need(len(b) >= 96, name + ": it is cut off")
        got, version, epoch, previous, h = struct.unpack_from("<8sII32s32s", b)
        need((got, version) == (magic, 1), name + ": it is no entry")
        body = gcm.unseal(self.seal(epoch, h), bytes(12), b[80:], name.encode() + b[:80])
        need(body is not None, name + ": its seal")
        need(b3(name.encode() + b"\0" + b[:48] + body, key=self.keys[epoch]["entry"]) == h, name + ": its hash")
        return previous, b3(b), fields(name, body, known)

    def read_ledger(self):
        numbers, previous, announced, kept = sorted(int(m[0]) for m in self.names["ledger"]), ZERO, None, None
        for n in range(1, numbers[-1] + 1 if numbers else 1):
            name = "ledger/%08d" % n
            before, hash, f = self.entry(name, b"booldgr\n", range(1, 6))
            need(before == previous, name + ": it does not follow")
            kind, previous = f[1][0][0], hash
            need(kind in (1, 2, 3, 4) and len(f[1]) == len(f[5]) == 1, name + ": its kind")
            need((kind == 2) == (len(f[4]) == 1) and (kind == 1 or not f[2] + f[3]), name + ": its fields")
            if kind == 2:
                need(announced == n - 1, name + ": an end of nothing")
                self.announcement, kept = announced, pack(f[4][0])
            self.forgotten.update(f[3])
            announced = n if kind == 1 else None
        if kept:
            self.read_kept(kept)

    def read_kept(self, p):
        line = None
        for kind, b in self.parts(p):
            need(kind == KEPT, "what is kept: a part of kind", kind)
            for tag, value in split("what is kept", b, range(1, 7)):
                if tag == 1:
                    need(len(value) == 81, "what is kept: a line")
                    id, s, last, hash, _, named = struct.unpack("<16s16sQ32sQB", value)
                    line = self.kept[id.hex(), s.hex()] = {"last": last, "hash": hash, 2: [], 3: [], 4: [], 5: []}
                elif tag == 6:
                    self.forgotten.add(value)
                else:
                    need(line is not None, "what is kept: field", tag)
                    line[tag].append(value)

    def counts(self, s, line, e):
        if number(e.fields[1][0]) >= self.announcement:
            return True
        kept = self.kept.get((line, s))
        return kept is not None and e.number <= kept["last"] and e.number not in map(number, kept[4])

    def read_line(self, s, line):
        """All entries of a line: what was folded, and behind that the log."""
        kept, entries = self.kept.get((line, s)), []
        for f in kept[5] if kept else ():
            first, last, p = number(f[:8]), number(f[8:16]), pack(f[16:])
            need(first == len(entries), "%s: its folds" % line)
            for kind, b in self.parts(p):
                need(kind == FOLD, "a fold: a part of kind", kind)
                n, hash = struct.unpack_from("<Q32s", b)
                need(n == len(entries), "%s: entries of a fold" % line)
                where = "%s: entry %d of a fold" % (line, n)
                all = fields(where, b[40:], (*range(1, 17),))
                entries.append(Entry(n, None, all[14][0] if all[14] else hash, all, "fold %s %d" % (line, n)))
            need(len(entries) == last + 1, "%s: the end of a fold" % line)
        numbers = [int(m[2]) for m in self.names["log"] if m[:2] == (s, line)]
        for n in range(len(entries), max(numbers, default=-1) + 1):
            name = "log/%s/%s/%08d" % (s, line, n)
            previous, hash, all = self.entry(name, b"boorent\n", range(1, 17))
            need(previous == (entries[-1].hash if entries else ZERO), name + ": it does not follow")
            entries.append(Entry(n, previous, all[14][0] if all[14] else hash, all, name))
        if kept:
            last = kept["last"]
            need(len(entries) > last and entries[last].hash == kept["hash"], line + ": its end is missing")
        for e in entries:
            need(len(e.fields[1]) == 1, e.key + ": its generation")
        counting = [e for e in entries if self.counts(s, line, e)]
        if counting and counting[0].number == 0:
            opening = counting[0].fields
            need(self.s(opening[3][0]) == s and len(opening[4][0]) == 16, counting[0].key + ": its opening")
            self.lines[line] = counting

    # Packs, §6.

    def parts(self, p):
        """The kinds and texts of a pack's parts, which are compared with its index."""
        prefix = "data/%08d/%s/" % (p.generation, p.line)
        name, b = prefix + p.h, self.object(prefix + p.h)
        need(len(b) == p.length and len(b) >= 32 and 16 <= p.index <= len(b), name + ": its length")
        magic, version, epoch = struct.unpack_from("<8sII", b)
        need((magic, version) == (b"boorpak\n", 1), name + ": it is no pack")
        key, vouched = self.seal(epoch, bytes.fromhex(p.h)), name.encode() + b[:16]

        def part(at, end):
            text = gcm.unseal(key, bytes(4) + struct.pack("<Q", at), b[at:end], vouched)
            need(text is not None, "%s@%d: its seal" % (name, at))
            return text

        index = part(p.index, len(b))
        n, i, at, parts = number(index[:4]), 4, 16, []
        for _ in range(n):
            length, kind, zero, objects = struct.unpack_from("<IBBH", index, i)
            i += 8
            listed = list(struct.iter_unpack("<B32s", index[i:i + 33 * objects]))
            i += 33 * objects
            parts.append((kind, part(at, at + length + 16), listed))
            need(zero == 0 and len(parts[-1][1]) == length, name + ": its index")
            at += length + 16
        need(i == len(index) and at == p.index, name + ": its index")
        text = b"".join(t for _, t, _ in parts)
        h = b3(prefix.encode() + b"\0" + b[:16] + index + text, key=self.keys[epoch]["pack"])
        need(h.hex() == p.h, name + ": its hash")
        for kind, text, listed in parts:
            if kind < KEPT:
                found = self.records_of(name, text)
                need(found == listed, name + ": its index is not of its records")
        return [(kind, text) for kind, text, _ in parts]

    def records_of(self, name, b):
        """Takes records (F§3.2), and returns the kinds and IDs of their objects."""
        before, places = self.places, {}
        name, b, self.places = "%s+%d" % (name, len(self.held)), bytes(64) + b, places
        self.read_records(name, b, 64, len(b), [])
        self.held[name], self.places = b, before
        for id, found in places.items():
            self.places.setdefault(id, []).extend(found)
        return [(p.kind, id) for id, found in places.items() for p in found]

    def payload(self, p):
        return self.held[p.pack][p.at + 56:p.at + 56 + p.stored]

    # What records need.

    def own(self, e):
        """The objects that came with an entry."""
        if e.key not in self.packs:
            before, self.places = self.places, {}
            for b in e.fields[12]:
                self.records_of(e.key, b)
            for p in map(pack, e.fields[10]):
                for kind, _ in self.try_to(self.parts, p) or ():
                    need(kind < KEPT, e.key + ": a part of kind", kind)
            self.packs[e.key], self.places = self.places, before
        return self.packs[e.key]

    def around(self, line, last=None):
        """All objects of a line up to an entry, and of those lines that it begins on."""
        places = {}
        for e in self.lines[line]:
            if last is not None and e.number > last:
                break
            others = [(b[:16].hex(), number(b[16:24]), b[24:56]) for b in e.fields[2] + e.fields[7]]
            for other, n, hash in others:
                at = [x for x in self.lines.get(other, ()) if x.number == n]
                need(at and at[0].hash == hash, "%s: entry %d of %s, on which it begins" % (e.key, n, other))
                for id, found in self.around(other, n).items():
                    places.setdefault(id, []).extend(found)
            for id, found in self.own(e).items():
                places.setdefault(id, []).extend(found)
        return places

    def records_in(self, line):
        """The records of a line; the last of a number counts."""
        records = {}
        for e in self.lines[line]:
            for b in e.fields[8]:
                all = collections.defaultdict(list)
                for tag, value in split(e.key, b[8:], range(1, 17)):
                    all[tag].append(value)
                records[number(b[:8])] = all
        return sorted(records.items())

    # The commands.

    def all(self):
        for line in self.lines:
            self.places.update(self.try_to(self.around, line) or {})

    def list(self):
        for line, entries in self.lines.items():
            session, path = entries[0].fields[3][0], (entries[0].fields[6] or [b"-"])[0]
            print("line", line, session.decode(errors="backslashreplace"), os.fsdecode(path),
                  entries[-1].number, sep="\t")
            for n, all in self.records_in(line):
                print(*self.columns(n, 2, all), sep="\t")

    def verify(self):
        known, seen, blobs = self.forgotten, set(), set()
        for line, entries in self.lines.items():
            self.places, self.cache = self.try_to(self.around, line) or {}, {}
            self.forgotten = known.union(*(e.fields[11] + e.fields[13] for e in entries))
            trees, contents = self.whole(self.records_in(line))
            seen |= trees
            blobs |= contents.keys()
            for e in entries[-1:]:
                for b in e.fields[16]:
                    at = [x for x in self.lines.get(b[:16].hex(), ()) if x.number == number(b[16:24])]
                    need(at and at[0].hash == b[24:56], "%s: what it pins" % e.key)
        print("%d lines, %d directories and %d contents" % (len(self.lines), len(seen), len(blobs)))


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in ("list", "ls", "cat", "export", "verify"):
        sys.exit(__doc__)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    remote = Remote(sys.argv[1], os.environ.get("KEYRING", "/dev/null"))
    verb, args = sys.argv[2], sys.argv[3:]
    if verb in ("ls", "cat", "export"):
        remote.all()
        args[0] = bytes.fromhex(args[0])
    remote.try_to(getattr(remote, verb), *args)
    for d in dict.fromkeys(remote.damage):
        print("remote.py: " + d, file=sys.stderr)
    sys.exit(1 if remote.damage else 0)


if __name__ == "__main__":
    main()
