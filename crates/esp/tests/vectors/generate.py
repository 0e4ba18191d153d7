#!/usr/bin/python3
"""Writes scapy.txt: ESP packets made by scapy's IPsec layer, with fixed keys, IVs and numbers.

Run with Debian 12's python3-scapy (2.5.0) and python3-cryptography (38.0.4):

    ./generate.py > scapy.txt

Each suite has a line, and each of its packets one after it; fields apart by one space, byte strings
in hexadecimal, "-" for an empty one:

    suite name cipher-key salt auth-key
    mode udp esn seq cleartext esp-packet

name as culvert spells it; mode "tunnel" or "transport"; udp and esn 0 or 1; seq the whole 64-bit
sequence number in decimal. The cleartext is a whole IP packet, the ESP packet begins with its
outer IP header. A counter mode's IV is the sequence number.

Some things are beyond scapy 2.5.0 and done here by hand. It authenticates the high half of extended
sequence numbers with combined modes only, and has not every truncation, nor AES-XCBC-MAC: there the ICV
is computed here (RFC 4303 section 2.2.1). Its GCM always has an ICV of 16 bytes: shorter ones are cut
(RFC 4106 section 6). Camellia is told to it, AES-GMAC's IV and ICV are put around its NULL (RFC 4543
section 3). And the UDP length over IPv4 does not cover the ESP packet: it is computed anew.

Every combined mode, every cipher with one integrity algorithm and every integrity algorithm with one cipher
is there in all forms, every other suite in one.
"""

import hashlib
import struct
import sys
from pathlib import Path

import scapy
from cryptography.hazmat.primitives.ciphers import algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (ICMPv6EchoRequest, IPv6, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting,
                                PadN)
from scapy.layers.ipsec import CRYPT_ALGOS, ESP, CryptAlgo, SecurityAssociation
from scapy.packet import Raw

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tests"))
from lab.integrity import INTEGRITY

SPI = 0xC0FFEE01
V4 = ("192.0.2.1", "198.51.100.2")
V6 = ("2001:db8::1", "2001:db8:ffff::2")
CRYPT_ALGOS["CAMELLIA-CBC"] = CryptAlgo("CAMELLIA-CBC", cipher=algorithms.Camellia, mode=modes.CBC)
FIRST = ("sha1", "sha256", "sha384", "sha512")


def derive(label, length):
    """Bytes that look random and are the same in every run."""
    return hashlib.shake_128(label.encode()).digest(length)


def suites():
    """Each suite: name, scapy's cipher, ICV length (combined modes), length of key, of salt and of a random IV,
    integrity algorithm or None; and whether it is there in all forms.
    """
    for bits in (128, 192, 256):
        for icv in (8, 12, 16):
            yield (f"aes{bits}gcm{icv}", "AES-GCM", icv, bits // 8, 4, 0, None), True
    yield ("chacha20poly1305", "CHACHA20-POLY1305", 16, 32, 4, 0, None), True
    for bits in (128, 192, 256):
        for name in FIRST:
            yield (f"aes{bits}-{name}", "AES-CBC", None, bits // 8, 0, 16, name), True
    for name in FIRST:
        yield (f"null-{name}", "NULL", None, 0, 0, 0, name), True
    for bits in (128, 192, 256):
        for icv in (8, 12, 16):
            yield (f"aes{bits}ccm{icv}", "AES-CCM", icv, bits // 8, 3, 0, None), True
    for bits in (128, 192, 256):
        yield (f"aes{bits}gmac", "GMAC", 16, bits // 8, 4, 0, None), True
    ciphers = [("null", "NULL", 0, 0, 0), ("3des", "3DES", 24, 0, 8), ("des", "DES", 8, 0, 8)]
    for bits in (128, 192, 256):
        ciphers.append((f"aes{bits}", "AES-CBC", bits // 8, 0, 16))
        ciphers.append((f"aes{bits}ctr", "AES-CTR", bits // 8, 4, 0))
        ciphers.append((f"camellia{bits}", "CAMELLIA-CBC", bits // 8, 0, 16))
    for cipher, scapys, key, salt, iv in ciphers:
        for name in INTEGRITY:
            if scapys not in ("NULL", "AES-CBC") or name not in FIRST:
                has_all_forms = cipher == "null" or name == "sha256"
                yield (f"{cipher}-{name}", scapys, None, key, salt, iv, name), has_all_forms


def cleartexts(size):
    """A cleartext packet of each kind, with a payload of `size` bytes; DF is set."""
    data = Raw(derive("payload", size))
    v4 = {"src": "10.1.0.5", "dst": "10.2.0.9", "tos": 0xBA, "flags": "DF", "id": 7, "ttl": 61}
    v6 = {"src": "2001:db8:1::5", "dst": "2001:db8:2::9", "tc": 0x49, "fl": 0x12345, "hlim": 61}
    return {
        "v4": IP(**v4) / UDP(sport=1000, dport=2000) / data,
        "v6": IPv6(**v6) / TCP(sport=1000, dport=2000, flags="A", seq=1, ack=2) / data,
    }


def own_packets(size):
    """Packets between the SA's own end points, for transport mode."""
    data = Raw(derive("payload", size))
    routing = IPv6ExtHdrRouting(addresses=["2001:db8:ffff::2"], segleft=0)
    return {
        "v4": IP(src=V4[0], dst=V4[1], flags="DF", id=7) / ICMP(id=3, seq=4) / data,
        "v4opt": IP(src=V4[0], dst=V4[1], flags="DF", id=7, options=[("NOP")] * 4)
        / TCP(sport=1000, dport=2000) / data,
        "v6": IPv6(src=V6[0], dst=V6[1]) / UDP(sport=1000, dport=2000) / data,
        "v6ext": IPv6(src=V6[0], dst=V6[1])
        / IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)]) / routing
        / ICMPv6EchoRequest(id=3, seq=4) / data,
    }


def keys(suite):
    """A suite's cipher key, salt and integrity key."""
    name, _, _, key_len, salt_len, _, auth = suite
    auth_key_len = INTEGRITY[auth].key_len if auth else 0
    lengths = {"key": key_len, "salt": salt_len, "auth": auth_key_len}
    return [derive(name + label, length) for label, length in lengths.items()]


def line(*fields):
    print(*((f.hex() or "-") if isinstance(f, bytes) else f for f in fields))


def seal(suite, mode, udp, esn, seq, clear):
    """One packet's line of the file."""
    name, cipher, icv, _, _, iv_len, auth = suite
    key, salt, auth_key = keys(suite)
    integrity = INTEGRITY[auth] if auth else None
    outer = None
    if mode == "tunnel4":
        tc = clear.tos if clear.version == 4 else clear.tc
        outer = IP(src=V4[0], dst=V4[1], ttl=64, id=0, flags="DF", tos=tc)
    elif mode == "tunnel6":
        tc = clear.tos if clear.version == 4 else clear.tc
        outer = IPv6(src=V6[0], dst=V6[1], hlim=64, tc=tc)
    by_hand = integrity and (esn or not integrity.scapy)
    cut = 16 - icv if cipher == "AES-GCM" else 0
    gmac = cipher == "GMAC"
    sa = SecurityAssociation(
        ESP, spi=SPI, crypt_algo="NULL" if gmac else cipher,
        crypt_key=None if gmac else (key + salt) or None,
        crypt_icv_size=None if gmac or not icv else icv + cut,
        auth_algo=integrity.scapy if integrity and not by_hand else None,
        auth_key=auth_key if integrity and not by_hand else None,
        tunnel_header=outer, nat_t_header=UDP(sport=4500, dport=4500) if udp else None,
        esn_en=bool(esn), esn=seq >> 32)
    if iv_len:
        iv = derive(f"{name}{mode}{udp}{seq}", iv_len)
    elif cipher in ("NULL", "GMAC"):
        iv = b""
    else:
        iv = struct.pack("!Q", seq)
    sealed = sa.encrypt(clear, seq_num=seq & 0xFFFFFFFF, iv=iv)
    if by_hand:
        covered = bytes(sealed[ESP]) + (struct.pack("!L", seq >> 32) if esn else b"")
        sealed[ESP].data += integrity.icv(auth_key, covered)
    if gmac:
        iv, text = struct.pack("!Q", seq), sealed[ESP].data
        number = struct.pack("!Q" if esn else "!L", seq)
        covered = struct.pack("!L", SPI) + number + iv + text
        sealed[ESP].data = iv + text + AESGCM(key).encrypt(salt + iv, b"", covered)
    if cut:
        sealed[ESP].data = sealed[ESP].data[:-cut]
    # Lengths and the IPv4 checksum are computed anew, the UDP checksum stays zero.
    for layer, fields in ((IP, ("len", "chksum")), (IPv6, ("plen",)), (UDP, ("len",))):
        if layer in sealed:
            for field in fields:
                if field in sealed[layer].fields:
                    delattr(sealed[layer], field)
    line(mode.rstrip("46"), udp, esn, seq, bytes(clear), bytes(sealed))


def main():
    print("# Source: generate.py beside this file, scapy", scapy.__version__)
    seq = 1
    for suite, has_all_forms in suites():
        line("suite", suite[0], *keys(suite))
        if not has_all_forms:
            seq += 1
            seal(suite, "tunnel4", 0, 0, seq, cleartexts(seq * 7 % 61)["v4"])
            continue
        for mode in ("tunnel4", "tunnel6"):
            for inner in ("v4", "v6"):
                for udp in (0, 1):
                    seq += 1
                    size = seq * 7 % 61
                    seal(suite, mode, udp, 0, seq, cleartexts(size)[inner])
                seq += 1
                seal(suite, mode, 0, 1, (5 << 32) + seq, cleartexts(seq * 7 % 61)[inner])
        for kind in own_packets(0):
            # Scapy names ESP, not UDP, in the last of several IPv6 headers.
            for udp in (0, 1) if kind != "v6ext" else (0,):
                seq += 1
                seal(suite, "transport", udp, udp, seq, own_packets(seq * 7 % 61)[kind])
    return 0


if __name__ == "__main__":
    sys.exit(main())
