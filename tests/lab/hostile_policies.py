#!/usr/bin/python3
"""Puts policies into an XFRM database and takes them out of it, such as no `ip xfrm` makes: any interface number, prefixes
with host bits or too long, ports without a protocol, marks with bits outside their masks.

    hostile_policies.py STEPS       a file of JSON: a list of ["put" or "delete", policy]

A policy is an object with what differs from a policy that blocks everything: see `Policy`. Prints the errno of each step.
Runs alone: this file needs nothing but Python. Under `culvert exec` it speaks to culvert, else to the kernel.
"""

import ipaddress
import json
import socket
import struct
import sys
from dataclasses import asdict, dataclass

NETLINK_XFRM = 6
NEWPOLICY, DELPOLICY, UPDPOLICY = 0x13, 0x14, 0x19
REQUEST, ACK, ERROR = 1, 4, 2
TMPL, MARK, IF_ID = 5, 21, 31
IN, OUT, FWD = 0, 1, 2


@dataclass
class Policy:
    src: str = "::"
    src_len: int = 0
    dst: str = "::"
    dst_len: int = 0
    proto: int = 0
    #: Value and mask.
    sport: tuple = (0, 0)
    dport: tuple = (0, 0)
    ifindex: int = 0
    mark: tuple = (0, 0)
    if_id: int = 0
    direction: int = OUT
    priority: int = 1000
    #: block, pass or protect.
    what: str = "block"

    def identity(self):
        """What a database tells policies apart by."""
        value, mask = self.mark
        words = {**asdict(self), "mark": (value & mask, mask)}
        return tuple(str(v) for k, v in words.items() if k not in ("priority", "what"))

    def meets(self, direction, src, dst, proto, sport, dport, mark, ifindex):
        """Whether a packet is the policy's, as Linux compares it."""
        value, mask = self.mark
        ends = ((self.src, self.src_len, src), (self.dst, self.dst_len, dst))
        ports = ((self.sport, sport), (self.dport, dport))
        return (
            self.direction == direction
            and (":" in self.src) == (":" in src)
            and all(ipaddress.ip_address(is_in) in ipaddress.ip_network((net, n), strict=False) for net, n, is_in in ends)
            and self.proto in (0, proto)
            and all((port ^ wanted) & bits == 0 for (wanted, bits), port in ports)
            and mark & mask == value & mask
            and self.ifindex in (0, ifindex)
            and self.if_id == 0
        )

    def selector(self):
        family = socket.AF_INET6 if ":" in self.src else socket.AF_INET
        ends = b"".join(socket.inet_pton(family, end).ljust(16, b"\0") for end in (self.dst, self.src))
        ports = struct.pack(">HHHH", *self.dport, *self.sport)
        return ends + ports + struct.pack("=HBBB3xiI", family, self.dst_len, self.src_len, self.proto, self.ifindex, 0)

    def attributes(self):
        out = b""
        if self.mark != (0, 0):
            out += attribute(MARK, struct.pack("=II", *self.mark))
        if self.if_id:
            out += attribute(IF_ID, struct.pack("=I", self.if_id))
        return out

    def put(self):
        limits = struct.pack("=QQQQ", *[2**64 - 1] * 4) + bytes(32)
        action = 1 if self.what == "block" else 0
        body = self.selector() + limits + bytes(32)
        body += struct.pack("=IIBBBB4x", self.priority, 0, self.direction, action, 0, 0) + self.attributes()
        if self.what == "protect":
            ends = [socket.inet_pton(socket.AF_INET, end).ljust(16, b"\0") for end in ("192.0.2.2", "192.0.2.1")]
            tmpl = ends[0] + bytes(4) + struct.pack("=B3x", 50) + struct.pack("=HH", socket.AF_INET, 0)
            tmpl += ends[1] + struct.pack("=IBBBBIII", 1, 1, 0, 0, 0, *[2**32 - 1] * 3)
            body += attribute(TMPL, tmpl)
        return UPDPOLICY, body

    def delete(self):
        return DELPOLICY, self.selector() + struct.pack("=IB3x", 0, self.direction) + self.attributes()


def attribute(kind, value):
    return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def parsed(words):
    return Policy(**{k: tuple(v) if isinstance(v, list) else v for k, v in words.items()})


def main():
    database = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_XFRM)
    database.bind((0, 0))
    answers = []
    with open(sys.argv[1], encoding="utf-8") as file:
        steps = json.load(file)
    for seq, (verb, words) in enumerate(steps):
        kind, body = getattr(parsed(words), verb)()
        database.send(struct.pack("=IHHII", 16 + len(body), kind, REQUEST | ACK, seq, 0) + body)
        while True:
            data = database.recv(65536)
            if struct.unpack_from("=H", data, 4)[0] == ERROR:
                answers.append(-struct.unpack_from("=i", data, 16)[0])
                break
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
