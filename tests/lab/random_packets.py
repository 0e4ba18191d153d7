"""The bytes of random packets, in clear and sealed, each with its number in it."""

import hashlib
import hmac
import ipaddress
import re
import struct

from . import topology as t
from .inject import ipv4_checksum
from .random_policies import SAS, TCP, UDP
from .xfrm import key

#: SPIs: out is 0x100 + number, in is 0x200 + number. NULL encryption, so that a capture can tell whose packet it is.
OUT, IN = 0x100, 0x200
ICV_LEN = 16

#: The outer tunnel is IPv4 for either family inside.
ENDS = (t.WAN_A4, t.WAN_B4)


def state(src, dst, spi, number, universe):
    # Without it the SA is for packets of the outer family alone.
    flag = "flag af-unspec" if universe.family == 6 else ""
    return (
        f"xfrm state add src {src} dst {dst} proto esp spi {spi:#x} reqid {number} mode tunnel replay-window 32 "
        f'{flag} enc "ecb(cipher_null)" "" auth-trunc "hmac(sha256)" {key(32, spi)} 128'
    )


def lines(chosen, universe):
    """The lines for `ip -batch` that install SAs and a set of policies."""
    for number in range(1, SAS + 1):
        yield state(*ENDS, OUT + number, number, universe)
        yield state(*ENDS[::-1], IN + number, number, universe)
    for policy in chosen:
        ends = ENDS if policy.direction == "out" else ENDS[::-1]
        template = f"tmpl src {ends[0]} dst {ends[1]} proto esp reqid {policy.sa} mode tunnel" if policy.sa else ""
        yield (
            f"xfrm policy add {policy.selector()} dir {policy.direction} {policy.mark} priority {policy.priority} "
            f"action {policy.action} {template}"
        )


def tagged(number):
    """What a packet with this number has in it."""
    return b"TAG%06d." % number


def tag_in(data):
    """The number of the packet that a frame is or has in it; -1 if it is none of ours."""
    found = re.search(rb"TAG(\d{6})\.", data)
    return int(found[1]) if found else -1


def ipv4(src, dst, protocol, body, dscp=0):
    header = bytearray(struct.pack("!BBHHHBBH", 0x45, dscp << 2, 20 + len(body), 0, 0, 64, protocol, 0))
    header += ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
    struct.pack_into("!H", header, 10, ipv4_checksum(bytes(header)))
    return bytes(header) + body


def ipv6(src, dst, protocol, body, dscp=0):
    header = struct.pack("!IHBB", 6 << 28 | dscp << 22, len(body), protocol, 64)
    return header + ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed + body


def is_v6(packet):
    return ":" in packet.src


def udp6(packet, body):
    """UDP over IPv6, which has to have a checksum (RFC 8200, section 8.1)."""
    length = 8 + len(body)
    pseudo = ipaddress.ip_address(packet.src).packed + ipaddress.ip_address(packet.dst).packed
    pseudo += struct.pack("!IxxxB", length, UDP)
    header = struct.pack("!HHHH", *packet.ports, length, 0)
    odd = b"\0" * (length % 2)
    return header[:6] + struct.pack("!H", ipv4_checksum(pseudo + header + body + odd) or 0xFFFF)


def inner(packet, tag):
    """The IP packet, with its number in it; its class (DSCP) is the number of its mark."""
    body = tagged(tag)
    if packet.protocol == UDP and is_v6(packet):
        upper = udp6(packet, body)
    elif packet.protocol == UDP:
        upper = struct.pack("!HHHH", *packet.ports, 8 + len(body), 0)
    elif packet.protocol == TCP:
        # A segment of no connection; nobody looks at its checksum on the way.
        upper = struct.pack("!HHIIBBHHH", *packet.ports, tag, 0, 0x50, 0x10, 100, 0, 0)
    else:
        # An echo reply: the gateway itself does not answer it.
        upper = struct.pack("!BBHI", 129 if is_v6(packet) else 0, 0, 0, tag)
    make = ipv6 if is_v6(packet) else ipv4
    return make(packet.src, packet.dst, packet.protocol, upper + body, packet.mark)


def sealed(packet, tag, sequence):
    """In ESP with NULL encryption (RFC 2410) and HMAC-SHA-256-128 (RFC 4868), in tunnel mode."""
    spi = IN + packet.sa
    text = inner(packet, tag)
    pad = -(len(text) + 2) % 4
    next_header = 41 if is_v6(packet) else 4
    body = struct.pack("!II", spi, sequence) + text + bytes(range(1, pad + 1)) + bytes([pad, next_header])
    secret = bytes.fromhex(key(32, spi)[2:])
    icv = hmac.digest(secret, body, hashlib.sha256)[:ICV_LEN]
    return ipv4(t.WAN_B4, t.WAN_A4, 50, body + icv)
