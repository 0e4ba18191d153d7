#!/usr/bin/python3
"""Prints src/known_answers.txt: what each suite makes of one fixed ESP packet.

Uses Debian's python3-cryptography. The packet: SPI and sequence number 00..07, IV 10.., text of 48
bytes 40.., high half of the sequence number 01020304; cipher key 80.., salt c0.., integrity key
20..; every byte one more than the one before it. Printed are the sealed text and the ICV.
"""

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
        for name, integrity in INTEGRITY.items():
            text = TEXT
            if cipher is not None:
                encryptor = cipher.encryptor()
                text = encryptor.update(TEXT) + encryptor.finalize()
            icv = integrity.icv(run(0x20, integrity.key_len), HEADER + iv + text + HI)
            print(f"{cipher_name}-{name}", (text + icv).hex())


main()
