#!/usr/bin/python3
"""Prints src/known_answers.txt: what each suite makes of one fixed ESP packet.

Uses Debian's python3-cryptography. The packet: SPI and sequence number 00..07, IV 10.., text of 48
bytes 40.., high half of the sequence number 01020304; cipher key 80.., salt c0.., integrity key
20..; every byte one more than the one before it. Printed are the sealed text and the ICV.
"""
import hmac

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.cmac import CMAC


def run(start, length):
    return bytes((start + i) & 0xFF for i in range(length))


HEADER, TEXT, HI, SALT = run(0, 8), run(0x40, 48), bytes([1, 2, 3, 4]), run(0xC0, 4)
AAD = HEADER[:4] + HI + HEADER[4:]
BITS = (128, 192, 256)


def hashed(name):
    return lambda key, data: hmac.digest(key, data, name)


def cmac(key, data):
    mac = CMAC(algorithms.AES(key))
    mac.update(data)
    return mac.finalize()


def xcbc(key, data):
    """AES-XCBC-MAC (RFC 3566 section 4)."""

    def aes(key, block):
        return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)

    def xor(a, b):
        return bytes(x ^ y for x, y in zip(a, b))

    k1, k2, k3 = (aes(key, bytes([n]) * 16) for n in (1, 2, 3))
    blocks = [data[at : at + 16] for at in range(0, len(data), 16)] or [b""]
    last = blocks.pop()
    last = xor(last, k2) if len(last) == 16 else xor((last + b"\x80").ljust(16, b"\0"), k3)
    chain = bytes(16)
    for block in [*blocks, last]:
        chain = aes(k1, xor(chain, block))
    return chain


# Name, key length, ICV length, function.
INTEGRITY = [
    ("sha1", 20, 12, hashed("sha1")),
    ("sha1_160", 20, 20, hashed("sha1")),
    ("sha256_96", 32, 12, hashed("sha256")),
    ("sha256", 32, 16, hashed("sha256")),
    ("sha384", 48, 24, hashed("sha384")),
    ("sha512", 64, 32, hashed("sha512")),
    ("md5", 16, 12, hashed("md5")),
    ("md5_128", 16, 16, hashed("md5")),
    ("aesxcbc", 16, 12, xcbc),
    ("aescmac", 16, 12, cmac),
]


def ciphers():
    """Name, IV, and the cipher, or none."""
    yield "null", b"", None
    for bits in BITS:
        yield f"aes{bits}", run(0x10, 16), Cipher(algorithms.AES(run(0x80, bits // 8)), modes.CBC(run(0x10, 16)))
    for bits in BITS:
        # Nonce, IV, and a block counter that begins with one (RFC 3686 section 4).
        counter = SALT + run(0x10, 8) + bytes([0, 0, 0, 1])
        yield f"aes{bits}ctr", run(0x10, 8), Cipher(algorithms.AES(run(0x80, bits // 8)), modes.CTR(counter))
    for bits in BITS:
        key = algorithms.Camellia(run(0x80, bits // 8))
        yield f"camellia{bits}", run(0x10, 16), Cipher(key, modes.CBC(run(0x10, 16)))
    # A key of 8 bytes is used for all three.
    for name, key_len in (("3des", 24), ("des", 8)):
        yield name, run(0x10, 8), Cipher(algorithms.TripleDES(run(0x80, key_len)), modes.CBC(run(0x10, 8)))


def main():
    for bits in BITS:
        for icv in (8, 12, 16):
            gcm = Cipher(algorithms.AES(run(0x80, bits // 8)), modes.GCM(SALT + run(0x10, 8))).encryptor()
            gcm.authenticate_additional_data(AAD)
            text = gcm.update(TEXT) + gcm.finalize()
            print(f"aes{bits}gcm{icv}", (text + gcm.tag[:icv]).hex())
    sealed = ChaCha20Poly1305(run(0x80, 32)).encrypt(SALT + run(0x10, 8), TEXT, AAD)
    print("chacha20poly1305", sealed.hex())
    for bits in BITS:
        for icv in (8, 12, 16):
            ccm = AESCCM(run(0x80, bits // 8), icv)
            print(f"aes{bits}ccm{icv}", ccm.encrypt(SALT[:3] + run(0x10, 8), TEXT, AAD).hex())
    for bits in BITS:
        gcm = Cipher(algorithms.AES(run(0x80, bits // 8)), modes.GCM(SALT + run(0x10, 8))).encryptor()
        gcm.authenticate_additional_data(AAD + run(0x10, 8) + TEXT)
        gcm.finalize()
        print(f"aes{bits}gmac", (TEXT + gcm.tag).hex())
    for cipher_name, iv, cipher in ciphers():
        for name, key_len, icv, mac in INTEGRITY:
            text = TEXT
            if cipher is not None:
                encryptor = cipher.encryptor()
                text = encryptor.update(TEXT) + encryptor.finalize()
            tag = mac(run(0x20, key_len), HEADER + iv + text + HI)
            print(f"{cipher_name}-{name}", (text + tag[:icv]).hex())


main()
