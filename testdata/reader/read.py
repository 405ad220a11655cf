#!/usr/bin/env python3
"""Reads a store by docs/reference/format.md (the § below), which is all that its author knew of it.

    read.py STORE list              the records of the journal
    read.py STORE ls ID             what a tree, or a coverage, has in it
    read.py STORE cat ID            the content of a blob
    read.py STORE export TREE DIR   writes a tree into an empty directory
    read.py STORE verify            reads all that snapshots need, and compares the hashes; and compares
                                    indexes and summaries with what they are derived from

It needs b3sum, and python3-zstandard or the program zstd. It takes no locks and writes nothing into
the store; it finds nothing by indexes and summaries, but where a body ends.
What is in `accepted` (§5.8) counts as damage here. Objects are in memory as a whole.
"""
import collections, json, os, signal, struct, subprocess, sys, tempfile, time

try:
    import zstandard
except ImportError:
    zstandard = None

BLOB, CHUNKS, TREE, COVERAGE, GROUP, SEAL = 1, 2, 3, 4, 5, 255
CONTEXT = {TREE: "github.com/boocode/filestore 2026-11-21 tree v1",
           COVERAGE: "github.com/boocode/filestore 2026-11-21 coverage v1"}
REASONS = ("in part", "ignored", "too large", "unreadable", "changed while it was read", "socket, fifo or device",
           "version control", "our own store", "over budget", "sparse")
KINDS = "start base tool step empty intent restore pin edit-intent edit".split()
ZERO = bytes(32)
Place = collections.namedtuple("Place", "pack at kind codec raw stored crc first start size")


class Damage(Exception):
    """Bytes that are not what the format says."""


def need(is_so, *what):
    if not is_so:
        raise Damage(" ".join(map(str, what)))


CRC = [0] * 256
for i in range(256):
    c = i
    for _ in range(8):
        c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    CRC[i] = c


def crc32c(b):
    c = 0xFFFFFFFF
    for x in b:
        c = CRC[(c ^ x) & 255] ^ c >> 8
    return c ^ 0xFFFFFFFF


def hashes(kind, objects):
    """The IDs of objects of one kind (§1), by b3sum."""
    with tempfile.TemporaryDirectory() as d:
        names = [str(i) for i in range(len(objects))]
        for name, b in zip(names, objects):
            with open(os.path.join(d, name), "wb") as f:
                f.write(b)
        command = ["b3sum", "--no-names"] + (["--derive-key", CONTEXT[kind]] if kind in CONTEXT else [])
        parts = [names[i:i + 1000] for i in range(0, len(names), 1000)]
        lines = [subprocess.check_output(command + part, cwd=d).decode().split() for part in parts]
        return [bytes.fromhex(line) for part in lines for line in part]


def unzstd(payload, raw):
    """Decodes a frame, to one byte more than it should have at most (§3.2)."""
    if zstandard:
        try:
            return zstandard.ZstdDecompressor(max_window_size=8 << 20).stream_reader(payload, read_across_frames=True).read(raw + 1)
        except zstandard.ZstdError as e:
            raise Damage(e)
    with tempfile.TemporaryFile() as f:
        f.write(payload)
        f.seek(0)
        with subprocess.Popen(["zstd", "-dcq", "--memory=8MB"], stdin=f, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
            b = p.stdout.read(raw + 1)
            p.stdout.close()
    need(p.returncode == 0 or len(b) > raw, "zstd cannot decode it")
    return b


def varint(b, at):
    n = shift = 0
    while True:
        need(at < len(b), "a number is cut off")
        n |= (b[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if b[at - 1] < 128:
            return n, at


def split(where, body, known):
    """The fields of a body (§5.3): tag, value."""
    i = 0
    while i < len(body):
        tag = body[i]
        n, i = varint(body, i + 1)
        need(i + n <= len(body), "%s: field %d is cut off" % (where, tag))
        if tag < 128 and tag not in known:
            sys.exit("read.py: %s: field %d is not known" % (where, tag))
        yield tag, body[i:i + n]
        i += n


def following(b, magic, at, end, whole):
    """Where the next whole frame or record begins, or the end."""
    at = b.find(magic, at + 1, end)
    while at >= 0 and whole(b, at) is None:
        at = b.find(magic, at + 1, end)
    return at if at >= 0 else end


def one_byte(b):
    """Whether b is a frame but for one byte (§5.4), which its checksum finds."""
    if len(b) < 32:
        return False
    diff = crc32c(b[:28] + b[32:]) ^ int.from_bytes(b[28:32], "little")
    if sum(x != 0 for x in diff.to_bytes(4, "little")) == 1:
        return True  # a byte of the checksum
    back = {c >> 24: i for i, c in enumerate(CRC)}
    for at in reversed([*range(28), *range(32, len(b))]):
        i = back[diff >> 24]  # the register before this byte was in it
        diff = (diff ^ CRC[i]) << 8 & 0xFFFFFFFF | i
        if diff < 256:
            return not (b[at] == 0 and (at == 0 or not any(b[at:])))  # else a block may be missing
    return False


class Store:
    def __init__(self, path):
        self.path, self.damage, self.places, self.cache = path, [], {}, {}
        with open(os.path.join(path, "FORMAT")) as f:
            form = json.load(f)
        if form["format"] not in (1, 2) or form["hash"] != "blake3":
            sys.exit("read.py: format %s with hash %s is not known" % (form["format"], form["hash"]))
        unknown = set(form["features"]["read"]) - {"sparse", "groups"}
        if unknown:
            sys.exit("read.py: features of the store are not known: " + " ".join(sorted(unknown)))
        self.id = bytes.fromhex(form["id"])
        self.read_journal()
        for name in sorted(os.listdir(os.path.join(path, "packs"))):
            if name.endswith(".pack") and bytes.fromhex(name[:-5]) not in self.gone:
                self.try_to(self.read_pack, name)
        self.forgotten = set()
        if os.path.exists(os.path.join(path, "forgotten")):
            self.try_to(self.read_forgotten)

    def try_to(self, do, *args):
        try:
            return do(*args)
        except Damage as e:
            self.damage.append(str(e))

    def file(self, name, magic, called=None):
        """A file and the fields of its header (§3.1)."""
        with open(os.path.join(self.path, name), "rb") as f:
            b = f.read()
        need(len(b) >= 64 and crc32c(b[:60]) == struct.unpack_from("<I", b, 60)[0], name + ": header")
        got, version, store, own, a, n, zero = struct.unpack_from("<8sI16s16sQII", b)
        need((got, version, store, zero) == (magic, 1, self.id, 0) and called in (None, own), name + ": header")
        return b, a, n

    # The journal, §5.

    def read_journal(self):
        self.records, self.lengths, self.gone, self.pruned, self.last = {}, {}, set(), [], 0
        self.found, self.segments = {}, {}
        names = sorted(n for n in os.listdir(os.path.join(self.path, "journal")) if n.endswith(".log"))
        for i, name in enumerate(names):
            if int(name[:-4]) != i + 1:
                self.damage.append("journal: segment %d is missing" % (i + 1))
            self.lengths = {}  # the newest segment's state names all that count
            self.try_to(self.read_segment, "journal/" + name, int(name[:-4]))
        lost = [n for n in range(1, self.last + 1) if n not in self.records]
        if lost:
            self.damage.append("journal: records are missing: %s" % lost)

    def read_segment(self, name, number):
        b, _, _ = self.file(name, b"boojrnl\n", struct.pack("<QQ", number, 0))
        at, torn = 64, []
        base, here = self.last, {}
        self.segments[number] = base, len(b), here
        while at < len(b):
            frame = self.frame(b, at)
            if frame is None:
                end = following(b, b"BJRN", at, len(b), self.frame)
                torn.append((at, one_byte(b[at:end])))
                at = end
                continue
            kind, seq, durable, body = frame
            torn = [(t, bad or durable > t) for t, bad in torn]
            self.take(name, at, kind, seq, body)
            if kind == 2:
                here[seq] = at, self.records[seq][1]
            at += 32 + len(body)
        self.damage += ["%s@%d: no frame" % (name, t) for t, bad in torn if bad]

    def frame(self, b, at):
        if len(b) - at < 32:
            return None
        magic, kind, zero, length, seq, durable, crc = struct.unpack_from("<4sB3sIQQI", b, at)
        body = b[at + 32:at + 32 + length]
        if magic != b"BJRN" or length > 16 << 20 or len(body) != length or crc32c(b[at:at + 28] + body) != crc:
            return None
        if kind not in (1, 2, 3, 4) or zero != bytes(3):
            sys.exit("read.py: journal frames of kind %d are not known" % kind)
        return kind, seq, durable, body

    def take(self, name, at, kind, seq, body):
        fields = collections.defaultdict(list)
        for tag, value in split("%s@%d" % (name, at), body, (*range(1, 17), *range(64, 70))):
            fields[tag].append(value)
        for f in fields[64]:
            pack, length = f[:16], int.from_bytes(f[16:], "little")
            self.lengths[pack] = max(length, self.lengths.get(pack, 0))
        if kind in (1, 4):
            self.gone, self.pruned = set(fields[68]), []
            b, i, end = b"".join(fields[69]), 0, 1  # the first range counts from number 1
            while i < len(b):
                skip, i = varint(b, i)
                more, i = varint(b, i)
                self.pruned.append(range(end + skip, end + skip + more + 1))
                end += skip + more + 1
        self.last = max(self.last, seq)
        if kind != 1:
            self.records[seq] = (kind, fields)

    def snapshots(self):
        for seq, (kind, fields) in sorted(self.records.items()):
            if kind == 2 and not any(seq in r for r in self.pruned):
                yield seq, fields

    def read_forgotten(self):
        b, _, n = self.file("forgotten", b"booforg\n", bytes(16))
        need(len(b) == 68 + 32 * n and crc32c(b[:-4]) == struct.unpack("<I", b[-4:])[0], "forgotten")
        self.forgotten = {b[i:i + 32] for i in range(64, 64 + 32 * n, 32)}

    # Packs, §3.

    def read_pack(self, name):
        pack, name = bytes.fromhex(name[:-5]), "packs/" + name
        b, _, _ = self.file(name, b"boopack\n", pack)
        seal = self.header(b, len(b) - 64)
        if seal and seal[0] == SEAL:
            end = int.from_bytes(b[-8:], "little")
        elif os.path.exists(os.path.join(self.path, name[:-5] + ".idx")):
            self.damage.append(name + ": no seal")
            _, end, _ = self.file(name[:-5] + ".idx", b"booindx\n", pack)
        else:
            end = self.lengths.get(pack, 64)
        need(end <= len(b), name + ": shorter than it was")
        self.found[pack] = end, []
        self.read_records(name, b, 64, end, self.found[pack][1])

    def read_records(self, name, b, at, end, found):
        while at < end:
            head = self.header(b, at)
            if head is None or at + 56 + head[3] > end:
                self.damage.append("%s@%d: no record" % (name, at))
                at = following(b, b"BREC", at, end, self.header)
                continue
            kind, codec, raw, stored, id, crc = head
            if kind not in (BLOB, CHUNKS, TREE, COVERAGE, GROUP) or codec not in (0, 1):
                sys.exit("read.py: records of kind %d and codec %d are not known" % (kind, codec))
            if kind == GROUP:
                self.try_to(self.members, name, b, at, head, found)
            else:
                found.append((id[:24], at, stored))
                self.places.setdefault(id, []).append(Place(name, at, kind, codec, raw, stored, crc, 0, 0, raw))
            at += 56 + stored

    def header(self, b, at):
        if at < 64 or b[at:at + 4] != b"BREC" or len(b) - at < 56:
            return None
        _, kind, codec, flags, raw, stored, id, crc, own = struct.unpack_from("<4sBBHII32sII", b, at)
        if crc32c(b[at:at + 52]) != own or flags or raw > 1 << 30 or raw > max(1 << 27, stored * 64):
            return None
        return kind, codec, raw, stored, id, crc

    def members(self, name, b, at, head, found):
        _, codec, raw, stored, id, crc = head
        n, own, zero = struct.unpack("<II24s", id)
        table = b[at + 56:at + 56 + 37 * n]
        need(1 <= n <= 1023 and zero == bytes(24) and crc32c(table) == own, "%s@%d: table of the group" % (name, at))
        start = 0
        for i, (kind, size, member) in enumerate(struct.iter_unpack("<BI32s", table), 1):
            found.append((member[:24], at, stored | i << 21 | 1 << 31))
            need(kind in (BLOB, TREE, COVERAGE), "%s@%d: kind of a member" % (name, at))
            self.places.setdefault(member, []).append(
                Place(name, at, kind, codec, raw, stored, crc, len(table), start, size))
            start += size
        need(start == raw, "%s@%d: lengths of the group" % (name, at))

    def index(self, pack, end, found):
        """Compares an index with its pack (§4)."""
        name = "packs/%s.idx" % pack.hex()
        b, a, n = self.file(name, b"booindx\n", pack)
        need(a == end and len(b) == 2116 + 32 * n and crc32c(b[64:2112]) == int.from_bytes(b[2112:2116], "little"),
             name + ": its table")
        rows, at = list(struct.iter_unpack("<24sII", b[2116:])), 0
        for first, (to, crc) in enumerate(struct.iter_unpack("<II", b[64:2112])):
            need(at <= to <= n and all(r[0][0] == first for r in rows[at:to]), name + ": bucket %02x" % first)
            need(crc == (crc32c(b[2116 + 32 * at:2116 + 32 * to]) if to > at else 0), name + ": its checksums")
            at = to
        need(at == n and [r[0] for r in rows] == sorted(r[0] for r in rows), name + ": order")
        need(set(rows) <= set(found) and {r[0] for r in rows} == {f[0] for f in found}, name + ": not what is in it")

    def summary(self, number, base, length, here):
        """Compares a summary with its segment (§5.5)."""
        name = "journal/%08d.sum" % number
        b, a, _ = self.file(name, b"boosumm\n", struct.pack("<QQ", number, 0))
        need(crc32c(b[:-4]) == int.from_bytes(b[-4:], "little"), name + ": checksum")
        was, last, *counts = struct.unpack_from("<QQIIII", b, 64)
        need((a, was) == (length, base) and len(b) == 100 + 12 * sum(counts), name + ": not of its segment")
        rows = list(struct.iter_unpack("<QI", b[96:-4]))
        tables = [rows[sum(counts[:i]):sum(counts[:i + 1])] for i in range(4)]
        seqs = sorted(here)
        need(tables[0] == [(s, here[s][0]) for s in seqs], name + ": its records")
        keys, newest = ([], []), {}
        for i, (_, fields) in enumerate(here[s] for s in seqs):
            for k, tag in ((0, 10), (1, 1)):
                if fields[tag]:
                    keys[k].append((int.from_bytes(fields[tag][0][:8].ljust(8, b"\0"), "big"), i))
            worktree, session = (fields[tag][0] if fields[tag] else b"" for tag in (4, 7))
            newest[worktree + b"\0" + session] = newest[worktree + b"\0\0"] = i
        ids = hashes(BLOB, list(newest))
        heads = [(int.from_bytes(h[:8], "big"), i) for h, i in zip(ids, newest.values())]
        for what, want, got in zip(("entries", "trees", "sessions"), (*keys, heads), tables[1:]):
            need(got == sorted(want), name + ": its " + what)

    def derived(self):
        for pack, (end, found) in self.found.items():
            if os.path.exists(os.path.join(self.path, "packs", pack.hex() + ".idx")):
                self.try_to(self.index, pack, end, found)
        for number, (base, length, here) in self.segments.items():
            if os.path.exists(os.path.join(self.path, "journal", "%08d.sum" % number)):
                self.try_to(self.summary, number, base, length, here)

    def payload(self, p):
        with open(os.path.join(self.path, p.pack), "rb") as f:
            f.seek(p.at + 56)
            return f.read(p.stored)

    def record(self, p, with_crc):
        """What a record holds, decoded; of a group all of it."""
        if (p.pack, p.at) not in self.cache:
            payload = self.payload(p)
            need(not with_crc or crc32c(payload) == p.crc, "%s@%d: checksum" % (p.pack, p.at))
            b = payload[p.first:]
            if p.codec:
                b = unzstd(b, p.raw)
            need(len(b) == p.raw, "%s@%d: not of its length" % (p.pack, p.at))
            while len(self.cache) > 8:
                del self.cache[next(iter(self.cache))]
            self.cache[p.pack, p.at] = b
        return self.cache[p.pack, p.at][p.start:p.start + p.size]

    def fetch(self, kind, ids, with_crc=False, plain=False):
        """Gives each ID with its object, which has been compared with it, or with None."""
        batch, size = [], 0
        for id in [*ids, None]:
            if id is not None:
                kinds = (BLOB, CHUNKS) if kind == BLOB and not plain else (kind,)
                batch.append((id, [p for p in self.places.get(id, ()) if p.kind in kinds]))
                size += batch[-1][1][0].size if batch[-1][1] else 0
            if batch and (id is None or len(batch) == 1000 or size > 32 << 20):
                yield from self.compare(kind, batch, with_crc)
                batch, size = [], 0

    def compare(self, kind, batch, with_crc):
        first = [(id, self.try_to(self.load, places[0], with_crc) if places else None) for id, places in batch]
        sums = iter(hashes(kind, [b for _, b in first if b is not None]))
        for (id, places), (_, b) in zip(batch, first):
            if b is not None and next(sums) != id:
                self.damage.append("%s@%d: is not %s" % (places[0].pack, places[0].at, id.hex()))
                b = None
            if b is None and len(places) > 1:  # all records of one ID are the same object
                _, b = next(self.compare(kind, [(id, places[1:])], with_crc))
            yield id, b

    def load(self, p, with_crc):
        b = self.record(p, with_crc)
        if p.kind != CHUNKS:
            return b
        need(len(b) % 36 == 0, "%s@%d: list of chunks" % (p.pack, p.at))
        chunks = list(struct.iter_unpack("<32sI", b))
        whole = []
        for (id, c), (_, size) in zip(self.fetch(BLOB, [id for id, _ in chunks], with_crc, plain=True), chunks):
            need(c is not None and len(c) == size <= 2 << 20, "%s@%d: chunk %s" % (p.pack, p.at, id.hex()))
            whole.append(c)
        return b"".join(whole)

    # Trees and coverages, §6 and §7.

    def entries(self, kind, id, with_crc=False):
        """All that a directory has, from all of its pages: (name, attribute, size, ID)."""
        row, level = [(b"", 0, None, id)], None
        while level != 0:
            pages, above = [], level
            for (name, _, size, _), (id, b) in zip(row, self.fetch(kind, [i[3] for i in row], with_crc)):
                need(b is not None, "directory %s: not in the store" % id.hex())
                level, items = self.page(b)
                need(above is None or level == above - 1 and items[0][0] == name and
                     size == (len(items) if level == 0 else sum(i[2] for i in items)), id.hex(), "its place")
                pages.append(items)
            row = [i for items in pages for i in items]
            names = [i[0] for i in row]
            need(all(a < b for a, b in zip(names, names[1:])), id.hex(), "order of names")
            cuts = [i for i, h in enumerate(hashes(BLOB, names)) if i and len(names) > 64 and
                    int.from_bytes(h[:8], "little") % (1 << 5 * (level + 1)) == 0]
            starts = [sum(map(len, pages[:i])) for i in range(1, len(pages))]
            need(cuts == starts, id.hex(), "cut at", starts, "and not at", cuts)
        return row

    def page(self, b):
        need(len(b) >= 8, "a page is cut off")
        version, level, zero, n = struct.unpack_from("<BBHI", b)
        need(version == 1 and zero == 0 and len(b) >= 8 + 44 * n, "header of a page")
        lengths, attributes = (struct.unpack_from("<%dH" % n, b, 8 + k * n) for k in (0, 2))
        at, names = 8 + 4 * n, []
        for length in lengths:
            names.append(b[at:at + length])
            at += length
        need(len(b) == at + 40 * n, "length of a page")
        need(not any(x in (b"", b".", b"..") or b"/" in x or b"\0" in x for x in names), "names of a page")
        sizes = struct.unpack_from("<%dQ" % n, b, at)
        ids = [b[i:i + 32] for i in range(at + 8 * n, len(b), 32)]
        return level, list(zip(names, attributes, sizes, ids))

    def walk(self, id, path=b""):
        for name, mode, size, own in self.try_to(self.entries, TREE, id) or ():
            need(mode == 0o120777 or mode >> 9 in (0o100, 0o040), "%s: mode %o" % (os.fsdecode(path + name), mode))
            yield path + name, mode, size, own
            if mode >> 12 == 4:
                yield from self.walk(own, path + name + b"/")

    def left_out(self, id, path=b""):
        for name, attribute, size, own in self.try_to(self.entries, COVERAGE, id) or ():
            need(attribute & 255 < len(REASONS), os.fsdecode(path + name), "reason", attribute & 255, "is not known")
            if attribute & 255:
                yield path + name, REASONS[attribute & 255], size
            if own != ZERO:
                yield from self.left_out(own, path + name + b"/")

    # The commands.

    def list(self):
        for seq, (kind, fields) in sorted(self.records.items()):
            pruned = any(seq in r for r in self.pruned)
            print(*self.columns(seq, kind, fields), *["pruned"] * pruned, sep="\t")

    def columns(self, seq, kind, fields):
        text = lambda tag: fields[tag][0].decode(errors="backslashreplace") if fields[tag] else "-"
        data = json.loads(text(16)) if fields[16] else {}
        turn = data.get("turn", 0 if fields[16] and text(9) in ("step", "empty") else "-")
        if kind == 2 and fields[9] and text(9) not in KINDS:
            sys.exit("read.py: record %d: its kind %s is not known" % (seq, text(9)))
        when = "-"
        if fields[3]:
            s, ns = divmod(int.from_bytes(fields[3][0], "little", signed=True), 10**9)
            when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(s)) + ".%09dZ" % ns
        return (seq, text(9) if kind == 2 else ("", "state", "snapshot", "packs", "ledger")[kind], text(7),
                turn, when, fields[1][0].hex() if fields[1] else "-")

    def ls(self, id):
        if any(p.kind == COVERAGE for p in self.places.get(id, ())):
            for path, reason, size in self.left_out(id):
                sys.stdout.buffer.write(b"%s\t%d\t%s\n" % (reason.encode(), size, path))
            return
        for path, mode, size, own in self.walk(id):
            sys.stdout.buffer.write(b"%06o\t%s\t%d\t%s\n" % (mode, own.hex().encode(), size, path))

    def cat(self, id):
        for _, b in self.fetch(BLOB, [id]):
            need(b is not None, self.why(id))
            sys.stdout.buffer.write(b)

    def why(self, id):
        return "%s: %s" % (id.hex(), "forgotten" if id in self.forgotten else "not in the store")

    def export(self, id, to):
        os.makedirs(to, exist_ok=True)
        need(not os.listdir(to), "the directory is not empty")
        to, dirs, files = os.fsencode(to), [], collections.defaultdict(list)
        for path, mode, size, own in self.walk(id):
            if mode >> 12 == 4:
                os.mkdir(os.path.join(to, path), 0o700)
                dirs.append((os.path.join(to, path), mode & 0o777))
            else:
                files[own].append((os.path.join(to, path), mode))
        for id, b in self.fetch(BLOB, files):
            if b is None:
                self.damage += ["%s: %s" % (os.fsdecode(path), self.why(id)) for path, _ in files[id]]
                continue
            for path, mode in files[id]:
                if mode >> 12 == 0o12:
                    os.symlink(b, path)
                    continue
                with open(path, "xb") as f:
                    f.write(b)
                    os.fchmod(f.fileno(), mode & 0o777)
        for path, mode in reversed(dirs):
            os.chmod(path, mode)

    def verify(self):
        seen, blobs = self.whole(self.snapshots())
        self.derived()
        print("%d directories and %d contents" % (len(seen), len(blobs)))

    def whole(self, snapshots):
        """Reads all that snapshots need, and returns its directories and contents."""
        blobs, seen, todo = {}, set(), []
        for _, fields in snapshots:
            pairs = [(fields[1][0], fields[2][0] if fields[2] else ZERO)]
            pairs += [(f[:32], f[32:]) for f in fields[14] + fields[15]]
            todo += [(kind, id) for pair in pairs for kind, id in zip((TREE, COVERAGE), pair)]
            blobs.update((id, None) for id in fields[128] if id[:8] != b"\xff" * 8)
        while todo:
            kind, id = todo.pop()
            if id == ZERO or id[:8] == b"\xff" * 8 or (kind, id) in seen:
                continue
            seen.add((kind, id))
            for name, attribute, size, own in self.try_to(self.entries, kind, id, True) or ():
                if kind == COVERAGE or attribute >> 12 == 4:
                    todo.append((kind, own))
                else:
                    blobs[own] = size
        for id, b in self.fetch(BLOB, blobs, True):
            if b is None and id not in self.forgotten:
                self.damage.append(self.why(id))
            elif b is not None and blobs[id] not in (None, len(b)):
                self.damage.append("%s: not of the size that its tree says" % id.hex())
        return seen, blobs


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in ("list", "ls", "cat", "export", "verify"):
        sys.exit(__doc__)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    store = Store(sys.argv[1])
    store.try_to(getattr(store, sys.argv[2]), *[bytes.fromhex(a) for a in sys.argv[3:4]], *sys.argv[4:])
    for d in dict.fromkeys(store.damage):
        print("read.py: " + d, file=sys.stderr)
    sys.exit(1 if store.damage else 0)


if __name__ == "__main__":
    main()
