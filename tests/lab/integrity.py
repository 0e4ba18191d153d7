"""The integrity algorithms of ESP and AH, made of Python's `hmac` and the `cryptography` package.

The makers of the crates' test vectors use them too.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Integrity:
    """An integrity algorithm."""

    #: As scapy 2.5.0 names it; empty if it has it not.
    scapy: str
    #: Lengths in bytes.
    key_len: int
    icv_len: int
    #: The whole code, before it is cut to an ICV, of a key and the data.
    code: Callable[[bytes, bytes], bytes]

    def icv(self, key, data):
        """The ICV over data."""
        return self.code(key, data)[: self.icv_len]


def _hmac(digest):
    return lambda key, data: hmac.digest(key, data, digest)


def _cmac(key, data):
    from cryptography.hazmat.primitives.ciphers import algorithms
    from cryptography.hazmat.primitives.cmac import CMAC

    mac = CMAC(algorithms.AES(key))
    mac.update(data)
    return mac.finalize()


def _xcbc(key, data):
    """AES-XCBC-MAC (RFC 3566 section 4)."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    def aes(key, block):
        return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)

    def xor(a, b):
        return bytes(x ^ y for x, y in zip(a, b, strict=True))

    k1, k2, k3 = (aes(key, bytes([n]) * 16) for n in (1, 2, 3))
    blocks = [data[at : at + 16] for at in range(0, len(data), 16)] or [b""]
    last = blocks.pop()
    last = xor(last, k2) if len(last) == 16 else xor((last + b"\x80").ljust(16, b"\0"), k3)
    chain = bytes(16)
    for block in [*blocks, last]:
        chain = aes(k1, xor(chain, block))
    return chain


def _hmac_sm3(key, data):
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.hmac import HMAC

    code = HMAC(key, hashes.SM3())
    code.update(data)
    return code.finalize()


#: By the names of strongSwan's proposals.
INTEGRITY = {
    "sha1": Integrity("HMAC-SHA1-96", 20, 12, _hmac("sha1")),
    "sha256": Integrity("SHA2-256-128", 32, 16, _hmac("sha256")),
    "sha384": Integrity("SHA2-384-192", 48, 24, _hmac("sha384")),
    "sha512": Integrity("SHA2-512-256", 64, 32, _hmac("sha512")),
    "sha1_160": Integrity("", 20, 20, _hmac("sha1")),
    "sha256_96": Integrity("", 32, 12, _hmac("sha256")),
    "md5": Integrity("HMAC-MD5-96", 16, 12, _hmac("md5")),
    "md5_128": Integrity("", 16, 16, _hmac("md5")),
    "aesxcbc": Integrity("", 16, 12, _xcbc),
    "aescmac": Integrity("AES-CMAC-96", 16, 12, _cmac),
    "sm3_96": Integrity("", 32, 12, _hmac_sm3),
    "sm3_128": Integrity("", 32, 16, _hmac_sm3),
    "sm3": Integrity("", 32, 32, _hmac_sm3),
}
