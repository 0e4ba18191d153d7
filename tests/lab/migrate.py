"""XFRM_MSG_MIGRATE and XFRM_MSG_MIGRATE_STATE, for which `ip` has no words: SAs that go on with other ends."""

import os
import socket
import struct
from ipaddress import ip_address, ip_network

_NETLINK_XFRM = 6
_MIGRATE, _MIGRATE_STATE = 0x21, 0x29
_XFRMA_MIGRATE = 17
_REQUEST_ACK = 0x1 | 0x4
_TUNNEL = 1
_DIRECTIONS = {"in": 0, "out": 1, "fwd": 2}


def migrate(host, direction, selector, old, new, reqid):
    """Moves a tunnel's ESP SA, and the template of a policy that leads to it.

    `selector` is (source, destination) as prefixes, `old` and `new` are the ends as (source, destination).
    """
    ends = b"".join(_address(end) for end in (old[1], old[0], new[1], new[0]))
    entry = ends + struct.pack("=BBHIHH", socket.IPPROTO_ESP, _TUNNEL, 0, reqid, socket.AF_INET, socket.AF_INET)
    policy = _selector(*selector) + struct.pack("=IB3x", 0, _DIRECTIONS[direction])
    attribute = struct.pack("=HH", 4 + len(entry), _XFRMA_MIGRATE) + entry
    _ask(host, _MIGRATE, policy + attribute)


def migrate_state(host, spi, old, new, reqid):
    """Moves a tunnel's ESP SA, and no policy (Linux 7.2). OSError (ENOPROTOOPT or EINVAL): the kernel cannot."""
    name = _address(old[1]) + struct.pack("!I", spi) + struct.pack("=HBx", socket.AF_INET, socket.IPPROTO_ESP)
    body = name + _address(new[1]) + _address(new[0]) + bytes(8) + bytes(56)
    _ask(host, _MIGRATE_STATE, body + struct.pack("=IIHH", reqid, 0, socket.AF_INET, 0))


def _address(text):
    return ip_address(text).packed.ljust(16, b"\0")


def _selector(src, dst):
    src, dst = ip_network(src), ip_network(dst)
    ends = _address(dst.network_address) + _address(src.network_address)
    return ends + bytes(8) + struct.pack("=HBBB3xiI", socket.AF_INET, dst.prefixlen, src.prefixlen, 0, 0, 0)


def _ask(host, kind, body):
    """Sends a request in a host, and raises an OSError with what the kernel answers."""
    link = host.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_XFRM)
    try:
        link.settimeout(10)
        link.sendto(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST_ACK, 1, 0) + body, (0, 0))
        (error,) = struct.unpack_from("=i", link.recv(4096), 16)
    finally:
        link.close()
    if error:
        raise OSError(-error, f"XFRM message {kind:#x}: {os.strerror(-error)}")
