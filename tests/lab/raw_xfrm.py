#!/usr/bin/python3
"""Asks an XFRM database for SAs and policies that `ip xfrm` has no words for, and prints what it answers.

    raw_xfrm.py CASES       a file of JSON: {name: {"sa": {...}} or {"policy": {...}}}

Prints {name: [errno, what is shown of it afterwards]}. Runs alone: this file needs nothing but Python. Under `culvert exec`
it speaks to culvert, else to the kernel.
"""

import json
import socket
import struct
import sys

NETLINK_XFRM = 6
NEWSA, GETSA, NEWPOLICY, UPDSA, FLUSHSA, FLUSHPOLICY = 0x10, 0x12, 0x13, 0x1A, 0x1C, 0x1D
ERROR, DONE = 2, 3
REQUEST, ACK, DUMP = 1, 4, 0x300
ESP, AH, COMP = 50, 51, 108

ATTRIBUTES = {
    "encap": 4, "tmpl": 5, "alg_crypt": 2, "comp": 3, "aead": 18, "auth": 20, "tfcpad": 22, "esn": 23, "dir": 33,
    "drop_time": 36, "reorder_window": 37, "dont_frag": 38, "init_delay": 39, "max_qsize": 40, "pkt_size": 41,
}  # fmt: skip
SHOWN = {number: name for name, number in ATTRIBUTES.items() if number >= 33}


def address(text):
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    return socket.inet_pton(family, text).ljust(16, b"\0")


def attribute(kind, value):
    return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def algorithm(name, key, *more):
    return name.encode().ljust(64, b"\0") + struct.pack("=I", len(key) * 8) + b"".join(struct.pack("=I", m) for m in more) + key


def selector(family):
    return bytes(40) + struct.pack("=HBBB3xiI", family, 0, 0, 0, 0, 0)


def limits():
    return struct.pack("=QQQQ", *[2**64 - 1] * 4) + bytes(32)


def algorithms(proto, suite):
    if proto == AH:
        return attribute(20, algorithm("hmac(sha256)", b"k" * 32, 128))
    if proto == COMP:
        return attribute(3, algorithm("deflate", b""))
    if suite == "cbc":
        return attribute(2, algorithm("cbc(aes)", b"k" * 16)) + attribute(20, algorithm("hmac(sha256)", b"k" * 32, 128))
    return attribute(18, algorithm("rfc4106(gcm(aes))", b"k" * 20, 128))


def sa(spi, *, mode=5, proto=ESP, v6=False, inner=None, window=0, flags=0, suite="gcm", attributes=()):
    """`attributes` are pairs of a name and a number, or the value's bytes in hexadecimal."""
    src, dst = ("2001:db8::1", "2001:db8::2") if v6 else ("192.0.2.1", "192.0.2.2")
    family = socket.AF_INET6 if v6 else socket.AF_INET
    body = selector({None: 0, 4: socket.AF_INET, 6: socket.AF_INET6}[inner])
    body += address(dst) + struct.pack(">I", spi) + struct.pack("=B3x", proto) + address(src) + limits() + bytes(32 + 12)
    body += struct.pack("=IIHBBB7x", 0, 1, family, mode, window, flags)
    body += algorithms(proto, suite)
    for name, value in attributes:
        body += attribute(ATTRIBUTES[name], bytes.fromhex(value) if isinstance(value, str) else number(name, value))
    return body


def number(name, value):
    sizes = {"reorder_window": "=H", "dir": "=B"}
    return b"" if name == "dont_frag" else struct.pack(sizes.get(name, "=I"), value)


def policy(index, *, direction, optional=0, v6=False, mode=5):
    inner = socket.AF_INET6 if v6 else socket.AF_INET
    body = address(f"10.{index}.0.0" if not v6 else f"2001:db8:{index:x}::") + bytes(16 + 8)
    body += struct.pack("=HBBB3xiI", inner, 64 if v6 else 16, 0, 0, 0, 0) + limits() + bytes(32)
    body += struct.pack("=IIBBBB4x", 0, 0, direction, 0, 0, 0)
    tmpl = address("192.0.2.2") + bytes(4) + struct.pack("=B3x", ESP) + struct.pack("=HH", socket.AF_INET, 0)
    tmpl += address("192.0.2.1") + struct.pack("=IBBBBIII", 1, mode, 0, optional, 0, *[2**32 - 1] * 3)
    return body + attribute(5, tmpl)


class Database:
    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_XFRM)
        self.socket.bind((0, 0))
        self.seq = 0

    def ask(self, kind, body, flags=ACK):
        """The errno, and what else came."""
        self.seq += 1
        self.socket.send(struct.pack("=IHHII", 16 + len(body), kind, REQUEST | flags, self.seq, 0) + body)
        got = []
        while True:
            data = self.socket.recv(65536)
            while len(data) >= 16:
                length, kind = struct.unpack_from("=IH", data)
                message, data = data[16:length], data[(length + 3) & ~3 :]
                if kind == ERROR:
                    return -struct.unpack_from("=i", message)[0], got
                if kind == DONE:
                    return 0, got
                got.append(message)

    def states(self):
        """By SPI: mode and settings."""
        found = {}
        for message in self.ask(GETSA, b"", flags=DUMP)[1]:
            spi = struct.unpack_from(">I", message, 72)[0]
            shown = {"mode": message[214]}
            at = 224
            while at + 4 <= len(message):
                length, kind = struct.unpack_from("=HH", message, at)
                if kind in SHOWN:
                    shown[SHOWN[kind]] = message[at + 4 : at + length].hex()
                at += (length + 3) & ~3
            found[spi] = shown
        return found


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    database = Database()
    database.ask(FLUSHSA, struct.pack("=B3x", 0))
    database.ask(FLUSHPOLICY, b"")
    answers = {}
    for at, (name, case) in enumerate(cases.items(), 0x100):
        if "policy" in case:
            answers[name] = [database.ask(NEWPOLICY, policy(at % 250, **case["policy"]))[0], None]
            continue
        for earlier in case.get("before", []):
            database.ask(NEWSA, sa(at, **earlier))
        answers[name] = [database.ask(UPDSA if "before" in case else NEWSA, sa(at, **case["sa"]))[0], at]
    states = database.states()
    print(json.dumps({name: [errno, states.get(at)] for name, (errno, at) in answers.items()}))


if __name__ == "__main__":
    main()
