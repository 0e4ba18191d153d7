"""Every ESP suite that culvert knows, but those with SM4 and SM3, and an independent opinion on each one's packets.

scapy builds and opens the packets. What scapy 2.5.0 does not know is done here with the `cryptography` package:
shorter ICVs of AES-GCM (a shorter GCM tag is the longer one cut off, NIST SP 800-38D section 5.2.1.2), AES-GMAC,
AES-XCBC-MAC and the other truncations of HMACs.
"""

import struct
from dataclasses import dataclass

from .integrity import INTEGRITY

#: scapy's name, and the lengths of key and IV in bytes; the key with its nonce.
CIPHERS = {
    "null": ("NULL", 0, 0),
    **{f"aes{bits}": ("AES-CBC", bits // 8, 16) for bits in (128, 192, 256)},
    **{f"aes{bits}ctr": ("AES-CTR", bits // 8 + 4, 8) for bits in (128, 192, 256)},
    **{f"camellia{bits}": ("CAMELLIA-CBC", bits // 8, 16) for bits in (128, 192, 256)},
    "3des": ("3DES", 24, 8),
    "des": ("DES", 8, 8),
}


@dataclass(frozen=True)
class Suite:
    """A suite, named as strongSwan's proposals name it."""

    name: str
    crypt: str
    #: Lengths in bytes: of the cipher's key with its salt or nonce, of IV and ICV, of the integrity key.
    key_len: int
    iv_len: int
    icv_len: int
    auth_key_len: int = 0
    #: The integrity algorithm as strongSwan names it, and as scapy does, if it knows it.
    integrity: str = ""
    auth: str = ""


def _all():
    for bits in (128, 192, 256):
        for icv in (8, 12, 16):
            yield Suite(f"aes{bits}gcm{icv}", "AES-GCM", bits // 8 + 4, 8, icv)
            yield Suite(f"aes{bits}ccm{icv}", "AES-CCM", bits // 8 + 3, 8, icv)
        yield Suite(f"aes{bits}gmac", "GMAC", bits // 8 + 4, 8, 16)
    yield Suite("chacha20poly1305", "CHACHA20-POLY1305", 36, 8, 16)
    for cipher, (crypt, key, iv) in CIPHERS.items():
        for name, integrity in INTEGRITY.items():
            if name.startswith("sm3"):
                # Neither strongSwan nor scapy knows SM4 and SM3: against Linux they are tried in tests/interop.
                continue
            yield Suite(
                f"{cipher}-{name}", crypt, key, iv, integrity.icv_len,
                integrity.key_len, name, integrity.scapy,
            )  # fmt: skip


SUITES = {suite.name: suite for suite in _all()}

#: Each combined mode, each cipher with one integrity algorithm, and each of these with two ciphers; AES-CBC with
#: the HMACs of the RFCs in all sizes.
COVERING = {
    name: suite
    for name, suite in SUITES.items()
    if not suite.integrity
    or suite.integrity == "sha256"
    or name.split("-")[0] in ("null", "aes128")
    or suite.crypt == "AES-CBC" and suite.integrity in ("sha1", "sha384", "sha512")
}


def _facets(suite):
    """What a suite is made of: cipher and key; ICV, of a combined mode; integrity algorithm."""
    icv = None if suite.integrity else (suite.crypt, suite.icv_len)
    return {facet for facet in ((suite.crypt, suite.key_len), icv, suite.integrity) if facet}


def sample(suites):
    """So few of these suites that whatever one of them is made of is in one of the sample."""
    left = set().union(*map(_facets, suites.values()))
    chosen = set()
    while left:
        best = max(suites, key=lambda name: len(_facets(suites[name]) & left))
        chosen.add(best)
        left -= _facets(suites[best])
    return {name: suite for name, suite in suites.items() if name in chosen}


def association(suite, state, auth=True):
    """scapy's SecurityAssociation for a state (see inject.xfrm_states) of a suite."""
    from cryptography.hazmat.primitives.ciphers import algorithms, modes
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.ipsec import CRYPT_ALGOS, ESP, CryptAlgo, SecurityAssociation

    if "CAMELLIA-CBC" not in CRYPT_ALGOS:
        CRYPT_ALGOS["CAMELLIA-CBC"] = CryptAlgo(
            "CAMELLIA-CBC", cipher=algorithms.Camellia, mode=modes.CBC
        )
    outer = (IPv6 if ":" in state.dst else IP)(src=state.src, dst=state.dst)
    gmac = suite.crypt == "GMAC"
    auth = suite.auth if auth else ""
    return SecurityAssociation(
        ESP, spi=state.spi,
        crypt_algo="NULL" if gmac else suite.crypt,
        crypt_key=None if gmac else (state.aead or state.enc) or None,
        crypt_icv_size=suite.icv_len if suite.crypt == "AES-CCM" else None,
        auth_algo=auth or None, auth_key=state.auth if auth else None,
        tunnel_header=outer if state.mode == "tunnel" else None,
    )  # fmt: skip


def seal(suite, state, packet, sequence):
    """The outer IPv4 packet (bytes) that scapy makes of an inner one."""
    raw = bytes(association(suite, state).encrypt(packet, seq_num=sequence))
    header, esp = raw[:20], raw[20:]
    if suite.crypt == "AES-GCM":
        esp = esp[: len(esp) + suite.icv_len - 16]
    elif suite.crypt == "GMAC":
        iv = struct.pack("!Q", sequence)
        esp = esp[:8] + iv + esp[8:]
        esp += _gmac(state, esp)
    elif not suite.auth and suite.integrity:
        esp += INTEGRITY[suite.integrity].icv(state.auth, esp)
    from .inject import ipv4_checksum

    header = bytearray(header)
    struct.pack_into("!H", header, 2, 20 + len(esp))
    struct.pack_into("!H", header, 10, 0)
    struct.pack_into("!H", header, 10, ipv4_checksum(bytes(header)))
    return bytes(header) + esp


def open_esp(suite, state, outer):
    """The inner packet (bytes) in an outer IPv4 packet (bytes); raises when the ICV is wrong."""
    header_len = (outer[0] & 15) * 4
    esp = outer[header_len:]
    covered, icv = esp[: -suite.icv_len], esp[-suite.icv_len :]
    if suite.crypt == "AES-GCM" and suite.icv_len < 16:
        return _open_gcm(suite, state, esp)
    if suite.crypt == "GMAC":
        assert _gmac(state, covered) == icv, "wrong ICV"
        return _without_trailer(covered[16:])
    from scapy.layers.inet import IP

    if suite.auth or not suite.integrity:
        return bytes(association(suite, state).decrypt(IP(outer)))
    assert INTEGRITY[suite.integrity].icv(state.auth, covered) == icv, "wrong ICV"
    packet = IP(outer[: -suite.icv_len])
    packet.len = len(outer) - suite.icv_len
    return bytes(association(suite, state, auth=False).decrypt(packet))


def _without_trailer(text):
    return text[: -text[-2] - 2]


def _open_gcm(suite, state, esp):
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    iv, body, tag = esp[8:16], esp[16 : -suite.icv_len], esp[-suite.icv_len :]
    key, salt = state.aead[:-4], state.aead[-4:]
    mode = modes.GCM(salt + iv, tag, min_tag_length=suite.icv_len)
    decryptor = Cipher(algorithms.AES(key), mode).decryptor()
    decryptor.authenticate_additional_data(esp[:8])
    return _without_trailer(decryptor.update(body) + decryptor.finalize())


def _gmac(state, covered):
    """AES-GMAC's ICV (RFC 4543 section 3) over header, IV and text."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key, salt = state.aead[:-4], state.aead[-4:]
    return AESGCM(key).encrypt(salt + covered[8:16], b"", covered)
