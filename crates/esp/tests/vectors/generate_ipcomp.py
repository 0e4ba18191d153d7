#!/usr/bin/python3
"""Writes zlib_ipcomp.txt: packets with IPComp made by Python's zlib, with headers by scapy.

Run with Debian 12's python3-scapy (2.5.0):

    ./generate_ipcomp.py > zlib_ipcomp.txt

One packet a line, fields apart by one space, byte strings in hexadecimal:

    mode next-header cleartext packet

mode "tunnel" or "transport". The packet is that of RFC 3173: the outer or own headers, the IPComp header
with CPI 0x1234, and one raw deflate stream. The streams have the windows of Linux (11 bits) and of
RFC 1951 (15 bits), every level, and each kind of block.
"""

import random
import sys
import zlib

import scapy
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.packet import Raw

from generate import V4, V6

CPI = 0x1234
IPCOMP = 108
TEXT = b"It was a dark and stormy night; the rain fell in torrents, except at occasional intervals. "


def deflate(data, level, bits, strategy):
    stream = zlib.compressobj(level, zlib.DEFLATED, -bits, 8, strategy)
    return stream.compress(data) + stream.flush()


def header(next_header):
    return bytes([next_header, 0]) + CPI.to_bytes(2, "big")


def lines():
    rng = random.Random(1)
    for number in range(48):
        level, bits = 1 + number % 9, (11, 15)[number % 2]
        strategy = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_FIXED)[number % 3]
        size = rng.randrange(200, 1300)
        noise = bytes(rng.randrange(64) for _ in range(size // 4))
        data = Raw((noise + TEXT * 15)[:size])
        v6, inner_v6, tunnel = number & 1, number >> 1 & 1, number >> 2 & 1
        if not tunnel:
            inner_v6 = v6
        src, dst = (V6 if inner_v6 else V4) if not tunnel else (
            ("2001:db8:1::7", "2001:db8:2::7") if inner_v6 else ("10.1.0.7", "10.2.0.7"))
        if inner_v6:
            clear = IPv6(src=src, dst=dst, hlim=61) / ICMPv6EchoRequest(id=3, seq=4) / data
        else:
            clear = IP(src=src, dst=dst, id=7, ttl=61) / (ICMP(id=3) if number % 5 else UDP()) / data
        clear = bytes(clear)
        if tunnel:
            next_header, payload = (41 if inner_v6 else 4), clear
        else:
            at = 40 if v6 else 20
            next_header, payload = clear[6 if v6 else 9], clear[at:]
        body = Raw(header(next_header) + deflate(payload, level, bits, strategy))
        if v6:
            packet = IPv6(src=V6[0], dst=V6[1], nh=IPCOMP, hlim=64 if tunnel else 61) / body
        else:
            packet = IP(src=V4[0], dst=V4[1], proto=IPCOMP, id=7, ttl=64 if tunnel else 61) / body
        yield "tunnel" if tunnel else "transport", next_header, clear.hex(), bytes(packet).hex()


print(f"# Made by generate_ipcomp.py with zlib {zlib.ZLIB_RUNTIME_VERSION}, scapy {scapy.VERSION}.")
for line in lines():
    print(*line)
sys.stdout.flush()
