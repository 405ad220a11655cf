"""AES-256-GCM (FIPS 197, SP 800-38D) for nonces of 12 bytes, since Python's library has none. It is slow."""
import struct

SBOX, TABLES, BACK = [0] * 256, [], []


def double(x):
    return x << 1 ^ (0x11B if x & 0x80 else 0)


def prepare():
    p = q = 1
    while True:  # p goes through all numbers but 0, q through their inverses
        p ^= double(p)
        q ^= q << 1
        q ^= q << 2
        q ^= q << 4
        q = q & 255 ^ (0x09 if q & 0x80 else 0)
        SBOX[p] = 0x63
        for n in range(5):
            SBOX[p] ^= (q << n | q >> (8 - n)) & 255
        if p == 1:
            break
    SBOX[0] = 0x63
    first = [double(s) << 24 | s << 16 | s << 8 | double(s) ^ s for s in SBOX]
    TABLES.extend([x >> 8 * n | x << 32 - 8 * n & 0xFFFFFFFF for x in first] for n in range(4))
    for x in range(256):  # what 8 bits that fall out at the end are at the beginning
        for _ in range(8):
            x = x >> 1 ^ (0xE1 << 120 if x & 1 else 0)
        BACK.append(x)


prepare()


def schedule(key):
    w, c = list(struct.unpack(">8I", key)), 1
    word = lambda x: int.from_bytes(bytes(SBOX[b] for b in x.to_bytes(4, "big")), "big")
    for i in range(8, 60):
        x = w[-1]
        if i % 8 == 0:
            x = word((x << 8 | x >> 24) & 0xFFFFFFFF) ^ c << 24
            c = double(c)
        elif i % 8 == 4:
            x = word(x)
        w.append(w[-8] ^ x)
    return w


def encrypt(w, block):
    t0, t1, t2, t3 = TABLES
    a, b, c, d = (x ^ k for x, k in zip(struct.unpack(">4I", block), w))
    for i in range(4, 56, 4):
        a, b, c, d = (
            t0[a >> 24] ^ t1[b >> 16 & 255] ^ t2[c >> 8 & 255] ^ t3[d & 255] ^ w[i],
            t0[b >> 24] ^ t1[c >> 16 & 255] ^ t2[d >> 8 & 255] ^ t3[a & 255] ^ w[i + 1],
            t0[c >> 24] ^ t1[d >> 16 & 255] ^ t2[a >> 8 & 255] ^ t3[b & 255] ^ w[i + 2],
            t0[d >> 24] ^ t1[a >> 16 & 255] ^ t2[b >> 8 & 255] ^ t3[c & 255] ^ w[i + 3])
    last = ((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c))
    return struct.pack(">4I", *(
        (SBOX[p >> 24] << 24 | SBOX[q >> 16 & 255] << 16 | SBOX[r >> 8 & 255] << 8 | SBOX[s & 255]) ^ k
        for (p, q, r, s), k in zip(last, w[56:])))


def ghash(h, data):
    """The hash of blocks; bit 127 of a number is the first of its block."""
    table, x = [0] * 256, h
    for n in (128, 64, 32, 16, 8, 4, 2, 1):
        table[n] = x
        x = x >> 1 ^ (0xE1 << 120 if x & 1 else 0)
    for n in range(256):
        table[n] = table[n & -n] ^ table[n & n - 1] if n & n - 1 else table[n]
    y = 0
    for at in range(0, len(data), 16):
        y ^= int.from_bytes(data[at:at + 16].ljust(16, b"\0"), "big")
        z = 0
        for byte in y.to_bytes(16, "big")[::-1]:
            z = z >> 8 ^ BACK[z & 255] ^ table[byte]
        y = z
    return y


def unseal(key, nonce, sealed, vouched):
    """The text of a seal, or None if it is not what was sealed."""
    w, text, tag = schedule(key), sealed[:-16], sealed[-16:]
    fill = lambda b: b + bytes(-len(b) % 16)
    lengths = struct.pack(">QQ", 8 * len(vouched), 8 * len(text))
    own = ghash(int.from_bytes(encrypt(w, bytes(16)), "big"), fill(vouched) + fill(text) + lengths)
    own ^= int.from_bytes(encrypt(w, nonce + b"\0\0\0\1"), "big")
    if len(tag) != 16 or own != int.from_bytes(tag, "big"):
        return None
    stream = b"".join(encrypt(w, nonce + struct.pack(">I", i + 2)) for i in range(-(-len(text) // 16)))
    return (int.from_bytes(text, "big") ^ int.from_bytes(stream[:len(text)], "big")).to_bytes(len(text), "big")
