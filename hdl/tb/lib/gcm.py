"""GCM's field in Python, and the packed job of the GCM unit."""

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

LENGTHS = {16: 0, 24: 1, 32: 2}
JOB_BITS = 256 + 2 + 1 + 96 + 96 + 1 + 16 + 4 * 128


def multiply(x, y):
    """Product in GF(2^128), elements as 128-bit numbers, x^0 the highest bit (SP 800-38D)."""
    total = 0
    for i in range(128):
        if x >> (127 - i) & 1:
            total ^= y
        y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
    return total


def powers(h, count=4):
    """H, H^2, ... as numbers."""
    out = [h]
    while len(out) < count:
        out.append(multiply(out[-1], h))
    return out


def pack_powers(h):
    """The port's value: H lowest."""
    return sum(p << (128 * i) for i, p in enumerate(powers(h)))


def hash_key(key):
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return int.from_bytes(encryptor.update(bytes(16)), "big")


def ghash(h, blocks):
    y = 0
    for block in blocks:
        y = multiply(y ^ block, h)
    return y


def job(key, decrypt, nonce, aad, length):
    """The packed gcm_pkg::gcm_job_t."""
    value = int.from_bytes(key.ljust(32, b"\0"), "big")
    value = (value << 2 | LENGTHS[len(key)]) << 1 | int(decrypt)
    value = value << 96 | int.from_bytes(nonce, "big")
    value = value << 96 | int.from_bytes(aad.ljust(12, b"\xa5"), "big")
    value = (value << 1 | int(len(aad) == 12)) << 16 | length
    return value << 512 | pack_powers(hash_key(key))
