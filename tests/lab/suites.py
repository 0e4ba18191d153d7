"""Every ESP suite that culvert knows, and an independent opinion on each one's packets.

scapy builds and opens the packets. Where scapy knows a suite only with its longest ICV (AES-GCM),
the shorter ones are held against the `cryptography` package: a shorter GCM tag is the longer one
cut off (NIST SP 800-38D, section 5.2.1.2).
"""

import struct
from dataclasses import dataclass

HMACS = {
    "sha1": ("HMAC-SHA1-96", 12),
    "sha256": ("SHA2-256-128", 16),
    "sha384": ("SHA2-384-192", 24),
    "sha512": ("SHA2-512-256", 32),
}


@dataclass(frozen=True)
class Suite:
    """A suite, named as strongSwan's proposals name it."""

    name: str
    crypt: str
    icv_len: int
    iv_len: int
    auth: str = ""


def _all():
    for bits in (128, 192, 256):
        for icv in (8, 12, 16):
            yield Suite(f"aes{bits}gcm{icv}", "AES-GCM", icv, 8)
    yield Suite("chacha20poly1305", "CHACHA20-POLY1305", 16, 8)
    for bits in (128, 192, 256):
        for name, (auth, icv) in HMACS.items():
            yield Suite(f"aes{bits}-{name}", "AES-CBC", icv, 16, auth)
    for name, (auth, icv) in HMACS.items():
        yield Suite(f"null-{name}", "NULL", icv, 0, auth)


SUITES = {suite.name: suite for suite in _all()}


def association(suite, state):
    """scapy's SecurityAssociation for a state (see inject.xfrm_states) of a suite."""
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.ipsec import ESP, SecurityAssociation

    outer = (IPv6 if ":" in state.dst else IP)(src=state.src, dst=state.dst)
    return SecurityAssociation(
        ESP, spi=state.spi,
        crypt_algo=suite.crypt, crypt_key=(state.aead or state.enc) or None,
        auth_algo=suite.auth or None, auth_key=state.auth or None,
        tunnel_header=outer if state.mode == "tunnel" else None,
    )  # fmt: skip


def seal(suite, state, packet, sequence):
    """The outer IP packet (bytes) that scapy makes of an inner one."""
    sealed = association(suite, state).encrypt(packet, seq_num=sequence)
    raw = bytes(sealed)
    if suite.crypt == "AES-GCM" and suite.icv_len < 16:
        cut = bytearray(raw[: suite.icv_len - 16])
        from .inject import ipv4_checksum

        struct.pack_into("!H", cut, 2, len(cut))
        struct.pack_into("!H", cut, 10, 0)
        struct.pack_into("!H", cut, 10, ipv4_checksum(bytes(cut[:20])))
        raw = bytes(cut)
    return raw


def open_esp(suite, state, outer):
    """The inner packet (bytes) in an outer IPv4 packet (bytes); raises when the ICV is wrong."""
    if suite.crypt == "AES-GCM" and suite.icv_len < 16:
        return _open_gcm(suite, state, outer)
    from scapy.layers.inet import IP

    return bytes(association(suite, state).decrypt(IP(outer)))


def _open_gcm(suite, state, outer):
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    esp = outer[(outer[0] & 15) * 4 :]
    iv, body, tag = esp[8:16], esp[16 : -suite.icv_len], esp[-suite.icv_len :]
    key, salt = state.aead[:-4], state.aead[-4:]
    mode = modes.GCM(salt + iv, tag, min_tag_length=suite.icv_len)
    decryptor = Cipher(algorithms.AES(key), mode).decryptor()
    decryptor.authenticate_additional_data(esp[:8])
    plain = decryptor.update(body) + decryptor.finalize()
    return plain[: -plain[-2] - 2]
