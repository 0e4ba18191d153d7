#!/usr/bin/python3
"""Writes scapy_ah.txt: packets with AH made by scapy's IPsec layer, with fixed keys and numbers.

Run with Debian 12's python3-scapy (2.5.0) and python3-cryptography (38.0.4):

    ./generate_ah.py > scapy_ah.txt

One packet a line, fields apart by one space, byte strings in hexadecimal:

    algorithm mode esn seq key cleartext packet

algorithm as culvert spells it in the suites without encryption; mode "tunnel" or "transport"; esn 0 or
1; seq the whole 64-bit sequence number in decimal. Cleartext and packet begin with their IP headers.
Over IPv4 AH is padded to 4 bytes, as Linux does with the flag align4.

Scapy 2.5.0 does not authenticate the high half of extended sequence numbers of an HMAC: Python's own
hmac module computes the ICV then (RFC 4302 section 3.3.3.2.2), over the packet as scapy blanks it.
"""

import struct
import sys

import scapy
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption
from scapy.layers.inet6 import (HBHOptUnknown, ICMPv6EchoRequest, IPv6, IPv6ExtHdrDestOpt,
                                IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, PadN)
from scapy.layers.ipsec import AH, SecurityAssociation, zero_mutable_fields
from scapy.packet import Raw

from generate import INTEGRITY, SPI, V4, V6, cleartexts, derive

ALGORITHMS = ("sha1", "sha256", "sha384", "sha512")


def own_packets(size):
    """Packets between the SA's own end points, with what may change on the way, and what may not."""
    data = Raw(derive("payload", size))
    v4 = {"src": V4[0], "dst": V4[1], "id": 7, "tos": 0xBA, "ttl": 61}
    v6 = {"src": V6[0], "dst": V6[1], "tc": 0x49, "fl": 0x12345, "hlim": 61}
    routing = IPv6ExtHdrRouting(addresses=["2001:db8:ffff::2"], segleft=0)
    changing = HBHOptUnknown(otype=0x3E, optdata=b"\1\2\3\4")
    staying = HBHOptUnknown(otype=0x1E, optdata=b"\5\6\7\10")
    # Router alert stays, record route and what nobody knows do not.
    options = [IPOption(b"\x94\4\0\0"), IPOption(b"\7\7\4\0\0\0\0"), IPOption(b"\1"), IPOption(b"\xde\4\1\2")]
    return {
        "v4": IP(flags="DF", **v4) / ICMP(id=3, seq=4) / data,
        "v4opt": IP(flags="DF", options=options, **v4) / TCP(sport=1000, dport=2000) / data,
        "v6": IPv6(**v6) / UDP(sport=1000, dport=2000) / data,
        "v6ext": IPv6(**v6) / IPv6ExtHdrHopByHop(options=[changing, staying, PadN(optdata=b"\0" * 2)])
        / IPv6ExtHdrDestOpt(options=[changing]) / routing / ICMPv6EchoRequest(id=3, seq=4) / data,
    }


def seal(name, mode, esn, seq, clear):
    """One line of the file."""
    integrity = INTEGRITY[name]
    key = derive(name + "auth", integrity.key_len)
    outer = None
    tc = clear.tos if clear.version == 4 else clear.tc
    if mode == "tunnel4":
        outer = IP(src=V4[0], dst=V4[1], ttl=64, id=0, flags="DF", tos=tc)
    elif mode == "tunnel6":
        outer = IPv6(src=V6[0], dst=V6[1], hlim=64, tc=tc)
    sa = SecurityAssociation(AH, spi=SPI, auth_algo=integrity.scapy, auth_key=key, tunnel_header=outer)
    sealed = sa.encrypt(clear, seq_num=seq & 0xFFFFFFFF)
    if esn:
        blank = zero_mutable_fields(sealed.copy(), sending=True)
        blank[AH].icv = b"\0" * integrity.icv_len
        covered = bytes(blank) + struct.pack("!L", seq >> 32)
        sealed[AH].icv = integrity.icv(key, covered)
    print(name, mode.rstrip("46"), esn, seq, key.hex(), bytes(clear).hex(), bytes(sealed).hex())


def main():
    print("# Source: generate_ah.py beside this file, scapy", scapy.__version__)
    seq = 1
    for name in ALGORITHMS:
        for mode in ("tunnel4", "tunnel6"):
            for inner in ("v4", "v6"):
                for esn in (0, 1):
                    seq += 1
                    seal(name, mode, esn, (5 * esn << 32) + seq, cleartexts(seq * 7 % 61)[inner])
        for kind in own_packets(0):
            for esn in (0, 1):
                seq += 1
                whole = (5 * esn << 32) + seq
                seal(name, "transport", esn, whole, own_packets(seq * 7 % 61)[kind])
    return 0


if __name__ == "__main__":
    sys.exit(main())
