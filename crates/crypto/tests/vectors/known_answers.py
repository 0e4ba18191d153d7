#!/usr/bin/python3
"""Prints src/known_answers.txt: what each suite makes of one fixed ESP packet.

Uses Debian's python3-cryptography. The packet: SPI and sequence number 00..07, IV 10.., text of 48
bytes 40.., high half of the sequence number 01020304; cipher key 80.., salt c0.., integrity key
20..; every byte one more than the one before it. Printed are the sealed text and the ICV.
"""

import struct
import sys
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, ChaCha20Poly1305

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tests"))
from lab.integrity import INTEGRITY


def run(start, length):
    return bytes((start + i) & 0xFF for i in range(length))


HEADER, TEXT, HI, SALT = run(0, 8), run(0x40, 48), bytes([1, 2, 3, 4]), run(0xC0, 4)
AAD = HEADER[:4] + HI + HEADER[4:]
BITS = (128, 192, 256)


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


    yield "sm4", run(0x10, 16), Cipher(algorithms.SM4(run(0x80, 16)), modes.CBC(run(0x10, 16)))
    counter = SALT + run(0x10, 8) + bytes([0, 0, 0, 1])
    yield "sm4ctr", run(0x10, 8), Cipher(algorithms.SM4(run(0x80, 16)), modes.CTR(counter))


def times(a, b):
    """The product in GCM's field (NIST SP 800-38D section 6.3)."""
    product = 0
    for bit in range(128):
        product ^= b if a >> (127 - bit) & 1 else 0
        b = b >> 1 ^ (0xE1 << 120 if b & 1 else 0)
    return product


def sm4_gcm():
    """Text and whole tag. OpenSSL 3.0 has SM4 in counter mode only: GHASH is done here."""
    cipher, counter = algorithms.SM4(run(0x80, 16)), SALT + run(0x10, 8)
    key = int.from_bytes(Cipher(cipher, modes.ECB()).encryptor().update(bytes(16)), "big")
    stream = Cipher(cipher, modes.CTR(counter + bytes([0, 0, 0, 1]))).encryptor()
    mask, text = stream.update(bytes(16)), stream.update(TEXT)
    lengths = struct.pack("!QQ", len(AAD) * 8, len(text) * 8)
    tag, data = 0, AAD.ljust(16, b"\0") + text + lengths
    for at in range(0, len(data), 16):
        tag = times(tag ^ int.from_bytes(data[at : at + 16], "big"), key)
    return text, (tag ^ int.from_bytes(mask, "big")).to_bytes(16, "big")


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
    text, tag = sm4_gcm()
    for icv in (8, 12, 16):
        print(f"sm4gcm{icv}", (text + tag[:icv]).hex())
    for cipher_name, iv, cipher in ciphers():
        for name, integrity in INTEGRITY.items():
            text = TEXT
            if cipher is not None:
                encryptor = cipher.encryptor()
                text = encryptor.update(TEXT) + encryptor.finalize()
            icv = integrity.icv(run(0x20, integrity.key_len), HEADER + iv + text + HI)
            print(f"{cipher_name}-{name}", (text + icv).hex())


main()
