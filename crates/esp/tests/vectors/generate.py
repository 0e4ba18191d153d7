#!/usr/bin/python3
"""Writes scapy.txt: ESP packets made by scapy's IPsec layer, with fixed keys, IVs and numbers.

Run with Debian 12's python3-scapy (2.5.0) and python3-cryptography (38.0.4):

    ./generate.py > scapy.txt

One packet a line, fields apart by one space, byte strings in hexadecimal, "-" for an empty one:

    suite mode udp esn seq cipher-key salt auth-key cleartext esp-packet

suite as culvert spells it; mode "tunnel" or "transport"; udp and esn 0 or 1; seq the whole 64-bit
sequence number in decimal. The cleartext is a whole IP packet, the ESP packet begins with its
outer IP header. A counter mode's IV is the sequence number.

Three things are beyond scapy 2.5.0 and done here by hand. It authenticates the high half of extended
sequence numbers with combined modes only: for an HMAC, Python's own hmac module computes the ICV
(RFC 4303 section 2.2.1). Its GCM always has an ICV of 16 bytes: shorter ones are cut (RFC 4106
section 6). And the UDP length over IPv4 does not cover the ESP packet: it is computed anew.
"""

import hashlib
import hmac
import struct
import sys

import scapy
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (ICMPv6EchoRequest, IPv6, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting,
                                PadN)
from scapy.layers.ipsec import ESP, SecurityAssociation
from scapy.packet import Raw

SPI = 0xC0FFEE01
V4 = ("192.0.2.1", "198.51.100.2")
V6 = ("2001:db8::1", "2001:db8:ffff::2")
HMACS = {
    "sha1": ("HMAC-SHA1-96", hashlib.sha1, 20, 12),
    "sha256": ("SHA2-256-128", hashlib.sha256, 32, 16),
    "sha384": ("SHA2-384-192", hashlib.sha384, 48, 24),
    "sha512": ("SHA2-512-256", hashlib.sha512, 64, 32),
}


def derive(label, length):
    """Bytes that look random and are the same in every run."""
    return hashlib.shake_128(label.encode()).digest(length)


def suites():
    """Each suite: name, scapy's cipher, ICV length (combined modes), key, salt, HMAC or None."""
    for bits in (128, 192, 256):
        for icv in (8, 12, 16):
            yield f"aes{bits}gcm{icv}", "AES-GCM", icv, bits // 8, 4, None
    yield "chacha20poly1305", "CHACHA20-POLY1305", 16, 32, 4, None
    for bits in (128, 192, 256):
        for name in HMACS:
            yield f"aes{bits}-{name}", "AES-CBC", None, bits // 8, 0, name
    for name in HMACS:
        yield f"null-{name}", "NULL", None, 0, 0, name


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


def seal(suite, mode, udp, esn, seq, clear):
    """One line of the file."""
    name, cipher, icv, key_len, salt_len, auth = suite
    key, salt = derive(name + "key", key_len), derive(name + "salt", salt_len)
    auth_key = derive(name + "auth", HMACS[auth][2]) if auth else b""
    outer = None
    if mode == "tunnel4":
        tc = clear.tos if clear.version == 4 else clear.tc
        outer = IP(src=V4[0], dst=V4[1], ttl=64, id=0, flags="DF", tos=tc)
    elif mode == "tunnel6":
        tc = clear.tos if clear.version == 4 else clear.tc
        outer = IPv6(src=V6[0], dst=V6[1], hlim=64, tc=tc)
    by_hand = esn and auth
    cut = 16 - icv if icv else 0
    sa = SecurityAssociation(
        ESP, spi=SPI, crypt_algo=cipher, crypt_key=(key + salt) or None, crypt_icv_size=16 if icv else None,
        auth_algo=HMACS[auth][0] if auth and not by_hand else None,
        auth_key=auth_key if auth and not by_hand else None,
        tunnel_header=outer, nat_t_header=UDP(sport=4500, dport=4500) if udp else None,
        esn_en=bool(esn), esn=seq >> 32)
    if cipher == "AES-CBC":
        iv = derive(f"{name}{mode}{udp}{seq}", 16)
    elif cipher == "NULL":
        iv = b""
    else:
        iv = struct.pack("!Q", seq)
    sealed = sa.encrypt(clear, seq_num=seq & 0xFFFFFFFF, iv=iv)
    if by_hand:
        digest, icv_len = HMACS[auth][1], HMACS[auth][3]
        covered = bytes(sealed[ESP]) + struct.pack("!L", seq >> 32)
        sealed[ESP].data += hmac.new(auth_key, covered, digest).digest()[:icv_len]
    if cut:
        sealed[ESP].data = sealed[ESP].data[:-cut]
    # Lengths and the IPv4 checksum are computed anew, the UDP checksum stays zero.
    for layer, fields in ((IP, ("len", "chksum")), (IPv6, ("plen",)), (UDP, ("len",))):
        if layer in sealed:
            for field in fields:
                if field in sealed[layer].fields:
                    delattr(sealed[layer], field)
    fields = [key, salt, auth_key, bytes(clear), bytes(sealed)]
    print(name, mode.rstrip("46"), udp, esn, seq, *(f.hex() or "-" for f in fields))


def main():
    print("# Source: generate.py beside this file, scapy", scapy.__version__)
    seq = 1
    for suite in suites():
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
