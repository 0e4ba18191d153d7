"""SHA-1 and SHA-256 compression in plain Python (FIPS 180-4), for chaining states.

hashlib gives digests of whole messages only; HMAC's precomputed states need the state in between.
`check()` compares both.
"""

import hashlib
import struct

MASK = 0xFFFFFFFF
SHA1_INIT = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
SHA256_INIT = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
               0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)


def _rotl(x, n):
    return (x << n | x >> (32 - n)) & MASK


def _primes(count):
    found = []
    candidate = 2
    while len(found) < count:
        if all(candidate % p for p in found):
            found.append(candidate)
        candidate += 1
    return found


def _cube_root_bits(n):
    """The first 32 fractional bits of the cube root of n."""
    target, root = n << 96, 1 << 35
    while root**3 > target:  # Newton's method on integers, from above
        root = (2 * root + target // root**2) // 3
    while (root + 1) ** 3 <= target:
        root += 1
    return root & MASK


K256 = [_cube_root_bits(p) for p in _primes(64)]


def sha1_block(state, block):
    w = list(struct.unpack(">16I", block))
    for t in range(16, 80):
        w.append(_rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1))
    a, b, c, d, e = state
    for t in range(80):
        if t < 20:
            f, k = b & c | ~b & d, 0x5A827999
        elif t < 40:
            f, k = b ^ c ^ d, 0x6ED9EBA1
        elif t < 60:
            f, k = b & c | b & d | c & d, 0x8F1BBCDC
        else:
            f, k = b ^ c ^ d, 0xCA62C1D6
        a, b, c, d, e = (_rotl(a, 5) + f + e + k + w[t]) & MASK, a, _rotl(b, 30), c, d
    return tuple((x + y) & MASK for x, y in zip(state, (a, b, c, d, e)))


def sha256_block(state, block):
    def rotr(x, n):
        return _rotl(x, 32 - n)

    w = list(struct.unpack(">16I", block))
    for t in range(16, 64):
        s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3
        s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10
        w.append((w[t - 16] + s0 + w[t - 7] + s1) & MASK)
    a, b, c, d, e, f, g, h = state
    for t in range(64):
        t1 = (h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + (e & f ^ ~e & g) + K256[t] + w[t])
        t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + (a & b ^ a & c ^ b & c)
        a, b, c, d, e, f, g, h = (t1 + t2) & MASK, a, b, c, (d + t1) & MASK, e, f, g
    return tuple((x + y) & MASK for x, y in zip(state, (a, b, c, d, e, f, g, h)))


ALGORITHMS = {
    "sha1": (SHA1_INIT, sha1_block),
    "sha256": (SHA256_INIT, sha256_block),
}


def pad(length):
    """The padding of a message of `length` bytes."""
    return b"\x80" + bytes((55 - length) % 64) + struct.pack(">Q", 8 * length)


def digest(name, message):
    state, compress = ALGORITHMS[name]
    message += pad(len(message))
    for i in range(0, len(message), 64):
        state = compress(state, message[i : i + 64])
    return b"".join(struct.pack(">I", x) for x in state)


def pad_states(name, key):
    """HMAC's two states, after the inner and the outer key pad, as software loads them."""
    init, compress = ALGORITHMS[name]
    if len(key) > 64:
        key = hashlib.new(name, key).digest()
    key = key.ljust(64, b"\0")
    return (compress(init, bytes(b ^ 0x36 for b in key)),
            compress(init, bytes(b ^ 0x5C for b in key)))


def to_int(state):
    """A state as the number that its port takes."""
    value = 0
    for word in state:
        value = value << 32 | word
    return value


def check():
    """The model agrees with hashlib."""
    for name in ALGORITHMS:
        for length in (0, 3, 55, 56, 63, 64, 65, 200):
            message = bytes(i * 7 & 255 for i in range(length))
            assert digest(name, message) == hashlib.new(name, message).digest()


check()
