#!/usr/bin/python3
"""Writes vectors.txt: each tunnel's packets as scapy makes them. Needs scapy 2.5 or later."""

from pathlib import Path

from scapy.all import GRE, IP, UDP, VXLAN, Ether, IPv6, IPv6ExtHdrDestOpt, raw
from scapy.contrib.geneve import GENEVE
from scapy.layers.inet6 import PadN

INNER = {
    "v4": IP(src="10.1.0.1", dst="10.2.0.1", tos=0xBA, ttl=63, id=7, flags="DF") / UDP(sport=4000, dport=53) / b"hello",
    "v6": IPv6(src="2001:db8:1::1", dst="2001:db8:2::1", tc=0x01, hlim=9) / UDP(sport=4000, dport=53) / b"hello",
}
FRAME = {"dst": "02:00:00:00:00:02", "src": "02:00:00:00:00:01"}
KIND = {"v4": 0x0800, "v6": 0x86DD}


def outer(family, inner, proto):
    """The header in front: class and TTL of what is inside, DF set."""
    tos = INNER[inner][0].tos if inner == "v4" else INNER[inner][0].tc
    ttl = INNER[inner][0].ttl if inner == "v4" else INNER[inner][0].hlim
    if family == "v4":
        return IP(src="192.0.2.1", dst="192.0.2.2", tos=tos, ttl=ttl, id=0, flags="DF", proto=proto)
    ends = {"src": "2001:db8::1", "dst": "2001:db8::2", "tc": tos, "hlim": ttl, "fl": 0}
    if family == "v6-limit":
        # RFC 2473, section 4.1.1: the option, and padding.
        option = IPv6ExtHdrDestOpt(nh=proto, autopad=0, options=[raw_option(4, b"\x04"), PadN(optdata=b"\0")])
        return IPv6(**ends, nh=60) / option
    return IPv6(**ends, nh=proto)


def raw_option(kind, data):
    """An option that scapy has no class for."""
    from scapy.layers.inet6 import HBHOptUnknown

    return HBHOptUnknown(otype=kind, optdata=data)


def all_vectors():
    for family in ["v4", "v6", "v6-limit"]:
        for inner, packet in INNER.items():
            frame = Ether(**FRAME, type=KIND[inner]) / packet
            front = outer(family, inner, 47)
            gre = {"proto": KIND[inner]}
            yield f"gre {family} {inner}", front / GRE(**gre) / packet
            yield f"gre-key {family} {inner}", front / GRE(**gre, key_present=1, key=0xFEEDBEEF) / packet
            both = GRE(**gre, chksum_present=1, key_present=1, key=5)
            yield f"gre-key-checksum {family} {inner}", front / both / packet
            yield f"gretap {family} {inner}", front / GRE(proto=0x6558) / frame
            udp = outer(family, inner, 17)
            # scapy leaves a checksum of 0 as it is.
            for name, checksum in [("", {}), ("-zero", {"chksum": 0})]:
                vxlan = UDP(sport=49152, dport=4789, **checksum) / VXLAN(vni=0xABCDEF, flags=8)
                yield f"vxlan{name} {family} {inner}", udp / vxlan / frame
                geneve = UDP(sport=49152, dport=6081, **checksum) / GENEVE(vni=0xABCDEF, proto=0x6558)
                yield f"geneve{name} {family} {inner}", udp / geneve / frame
                geneve = UDP(sport=49152, dport=6081, **checksum) / GENEVE(vni=0xABCDEF, proto=KIND[inner])
                yield f"geneve-ip{name} {family} {inner}", udp / geneve / packet
            # scapy knows no L2TPv3: RFC 3931, sections 4.1.1 and 4.1.2.
            rest = bytes.fromhex("00000009 0102030405060708 00000000")
            yield f"l2tp {family} {inner}", outer(family, inner, 115) / rest / frame
            datagram = UDP(sport=49152, dport=1701) / (bytes.fromhex("00030000") + rest) / frame
            yield f"l2tp-udp {family} {inner}", udp / datagram


def main():
    lines = ["# Made by make_vectors.py. Name, outer family, inner family, packet."]
    lines += [f"{name} {raw(packet).hex()}" for name, packet in all_vectors()]
    Path(__file__).with_name("vectors.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
