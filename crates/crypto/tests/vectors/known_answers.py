#!/usr/bin/python3
"""Prints src/known_answers.txt: what each suite makes of one fixed ESP packet.

Uses Debian's python3-cryptography. The packet: SPI and sequence number 00..07, IV 10.., text of 48
bytes 40.., high half of the sequence number 01020304; cipher key 80.., salt c0.., integrity key
20..; every byte one more than the one before it. Printed are the sealed text and the ICV.
"""
import hmac

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305


def run(start, length):
    return bytes((start + i) & 0xFF for i in range(length))


HEADER, TEXT, HI, SALT = run(0, 8), run(0x40, 48), bytes([1, 2, 3, 4]), run(0xC0, 4)
AAD = HEADER[:4] + HI + HEADER[4:]
HMACS = [("sha1", 20, 12), ("sha256", 32, 16), ("sha384", 48, 24), ("sha512", 64, 32)]

for bits in (128, 192, 256):
    for icv in (8, 12, 16):
        gcm = Cipher(algorithms.AES(run(0x80, bits // 8)), modes.GCM(SALT + run(0x10, 8))).encryptor()
        gcm.authenticate_additional_data(AAD)
        text = gcm.update(TEXT) + gcm.finalize()
        print(f"aes{bits}gcm{icv}", (text + gcm.tag[:icv]).hex())
sealed = ChaCha20Poly1305(run(0x80, 32)).encrypt(SALT + run(0x10, 8), TEXT, AAD)
print("chacha20poly1305", sealed.hex())
for bits in (128, 192, 256):
    for name, key_len, icv in HMACS:
        cbc = Cipher(algorithms.AES(run(0x80, bits // 8)), modes.CBC(run(0x10, 16))).encryptor()
        text = cbc.update(TEXT) + cbc.finalize()
        tag = hmac.digest(run(0x20, key_len), HEADER + run(0x10, 16) + text + HI, name)
        print(f"aes{bits}-{name}", (text + tag[:icv]).hex())
for name, key_len, icv in HMACS:
    tag = hmac.digest(run(0x20, key_len), HEADER + TEXT + HI, name)
    print(f"null-{name}", (TEXT + tag[:icv]).hex())
