#!/usr/bin/python3
"""Sends changed XFRM messages of all kinds to a daemon's socket, and prints as JSON what it answered.

    hurl_xfrm.py SOCKET SEED SECONDS aware|free         SOCKET may be `kernel`

`aware`: messages of every kind with good and bad fields and attributes, then changed; their headers stay right, and each has to be
answered. What would end the tunnel that goes on beside is left out: flushes, default policies, policies of a
better priority, indices that it may have. `free`: anything at all, also between the messages of the library's own protocol.
Runs alone, beside raw_xfrm.py and attack.py, which need nothing but Python.
"""

import json
import os
import random
import select
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import raw_xfrm as x  # noqa: E402

MAGIC = b"CVSHIM01"
HELLO, GROUPS, SUBSCRIBE, UNSUBSCRIBE, OPTION_ON, OPTION_OFF, SYNC, SOCKETS, SOCKET = range(1, 10)

NEWSA, DELSA, GETSA, NEWPOLICY, DELPOLICY, GETPOLICY, ALLOCSPI, ACQUIRE, EXPIRE, UPDPOLICY, UPDSA, POLEXPIRE = range(0x10, 0x1C)
FLUSHSA, FLUSHPOLICY, NEWAE, GETAE, REPORT, MIGRATE, NEWSADINFO, GETSADINFO, NEWSPDINFO, GETSPDINFO = range(0x1C, 0x26)
MAPPING, SETDEFAULT, GETDEFAULT, MIGRATE_STATE = range(0x26, 0x2A)
POLICIES = (NEWPOLICY, UPDPOLICY)
HARMFUL = (FLUSHSA, FLUSHPOLICY, SETDEFAULT)

#: Where a policy's priority, index and direction stand, from the message's body on.
PRIORITY, INDEX, DIRECTION = 152, 156, 160
#: Where the index stands in requests about one.
ID_INDEX = 56
#: A tunnel's policy is better than this, and its index lower.
LOW_PRIORITY, HIGH_INDEX = 5000, 1 << 20

ALGORITHMS = (
    "rfc4106(gcm(aes))", "cbc(aes)", "hmac(sha256)", "deflate", "rfc7539esp(chacha20,poly1305)", "cbc(sm4)", "x" * 64,
    "digest_null", "ecb(cipher_null)", "xcbc(aes)",
)  # fmt: skip

IN_FLIGHT = 16
EDGES = (0, 1, 2, 3, 4, 7, 8, 32, 127, 128, 255, 4096, 65535, 1 << 31, (1 << 32) - 1)


def sync(value):
    return MAGIC + struct.pack("=II", SYNC, value)


class Maker:
    """Messages' bodies by kind."""

    def __init__(self, rng):
        self.rng = rng
        self.spis = [0x5000 + n for n in range(64)]

    def address(self):
        rng = self.rng
        if rng.random() < 0.2:
            return rng.randbytes(16)
        return x.address(rng.choice(("198.51.100.1", "198.51.100.2", "2001:db8:77::1", "0.0.0.0", "224.0.0.1", "::")))

    def selector(self):
        rng = self.rng
        family = rng.choice((2, 2, 10, 10, 0, 7))
        far = rng.random() < 0.9
        src = x.address(f"10.77.{rng.randrange(4)}.0") if family == 2 and far else self.address()
        dst = x.address(f"10.78.{rng.randrange(4)}.0") if family == 2 and far else self.address()
        ports = struct.pack("=HHHH", *(rng.choice((0, 53, 0xFFFF)) for _ in range(4)))
        prefixes = (rng.choice((16, 24, 32)), rng.choice((16, 24, 32))) if family == 2 else (rng.choice((48, 64, 128, 200)), 64)
        ifindex = rng.choice((0, 0, 0, 0, 1, 2, 3, 99, -1, 1 << 30))
        proto, user = rng.choice((0, 0, 1, 6, 17, 58, 255)), rng.choice((0, 0, 1000))
        return dst + src + ports + struct.pack("=HBBB3xiI", family, *prefixes, proto, ifindex, user)

    def lifetimes(self):
        rng = self.rng
        return struct.pack("=8Q", *(rng.choice((0, 1, 1000, 1 << 40, (1 << 64) - 1, (1 << 64) - 1, (1 << 64) - 1)) for _ in range(8)))

    def algorithm(self):
        rng = self.rng
        name = rng.choice(ALGORITHMS)
        length = rng.choice((0, 16, 20, 32, 36, 64, 7))
        numbers = [rng.choice((length * 8, length * 8, length * 8, 0, 1, 0xFFFFFFFF)), rng.choice((128, 96, 64, 0, 0xFFFF))][: rng.choice((1, 2, 2))]
        return name.encode()[:64].ljust(64, b"\0") + b"".join(struct.pack("=I", n) for n in numbers) + rng.randbytes(length)

    def template(self):
        rng = self.rng
        body = self.address() + struct.pack(">I", rng.choice((0, 0, 0x5001))) + struct.pack("=B3x", rng.choice((50, 50, 51, 108, 0, 255)))
        body += struct.pack("=HH", rng.choice((2, 2, 10, 0)), 0) + self.address()
        mode, share, optional = rng.choice((0, 1, 1, 2, 4, 5, 9)), rng.choice((0, 0, 1)), rng.choice((0, 0, 1))
        return body + struct.pack("=IBBBBIII", rng.choice((1, 77)), mode, share, optional, 0, *[2**32 - 1] * 3)

    def attribute(self, kind=None):
        rng = self.rng
        kind = rng.randrange(45) if kind is None else kind
        number = rng.choice(EDGES)
        values = {
            1: self.algorithm, 2: self.algorithm, 3: self.algorithm, 18: self.algorithm, 20: self.algorithm,
            4: lambda: struct.pack("=HHHH", rng.choice((1, 2, 0, 9)), 4500, 4500, 0) + self.address(),
            5: lambda: b"".join(self.template() for _ in range(rng.choice((1, 1, 2, 6, 7)))),
            6: lambda: self.sa_info(), 7: lambda: self.policy_info(),
            9: lambda: struct.pack("=4Q", *(rng.choice(EDGES) for _ in range(4))),
            10: lambda: struct.pack("=III", *(rng.choice(EDGES) for _ in range(3))),
            13: self.address, 14: self.address, 16: lambda: bytes([rng.choice((0, 1, 2)), 0, 0, 0, 0, 0]),
            17: lambda: b"".join(self.address() for _ in range(4)) + struct.pack("=BBHIHH", 50, rng.choice((0, 1)), 0, 1, 2, 2),
            21: lambda: struct.pack("=II", number, rng.choice(EDGES)),
            23: self.replay,
            26: lambda: self.address() + self.address() + struct.pack("=HBB", rng.choice((2, 10)), 24, 24),
            28: lambda: struct.pack("=iB3x", rng.choice((0, 1, 2, 99, -1)), rng.choice((0, 1, 2, 4, 255))),
            33: lambda: bytes([rng.choice((0, 1, 2, 3))]),
        }  # fmt: skip
        value = values.get(kind, lambda: struct.pack("=I", number))()
        if rng.random() < 0.05:
            value = rng.randbytes(rng.choice((0, 1, 3, 5, 200)))
        return x.attribute(kind & 0xFFFF, value)

    def replay(self):
        rng = self.rng
        numbers = [rng.choice(EDGES) for _ in range(4)]
        head = struct.pack("=6I", rng.choice((1, 4, 128, 129, 0xFFFFFFFF)), *numbers, rng.choice((0, 32, 4096, 4097)))
        return head + bytes(4 * rng.choice((0, 1, 4, 128)))

    def sa_info(self):
        rng = self.rng
        body = self.selector() if rng.random() < 0.3 else x.selector(rng.choice((0, 2, 10)))
        body += self.address() + struct.pack(">I", rng.choice((0, *self.spis))) + struct.pack("=B3x", rng.choice((50, 50, 50, 51, 108, 4, 0)))
        body += self.address() + self.lifetimes() + bytes(32 + 12)
        family, mode = rng.choice((2, 2, 2, 10, 0)), rng.choice((0, 1, 1, 1, 2, 4, 5, 9))
        window, flags = rng.choice((0, 32, 64, 255)), rng.choice((0, 0, 4, 8, 32, 128, 255))
        return body + struct.pack("=IIHBBB7x", rng.choice((0, 7)), rng.choice((1, 77)), family, mode, window, flags)

    def policy_info(self):
        rng = self.rng
        body = self.selector() + self.lifetimes() + bytes(32)
        priority, index = rng.choice((LOW_PRIORITY, 9000, 1 << 31)), rng.choice((0, HIGH_INDEX + 9))
        direction, action = rng.choice((0, 1, 2, 2, 3, 4, 7)), rng.choice((0, 0, 1, 2))
        return body + struct.pack("=IIBBBB4x", priority, index, direction, action, rng.choice((0, 1, 2)), rng.choice((0, 1)))

    def sa_id(self):
        return self.address() + struct.pack(">I", self.rng.choice(self.spis)) + struct.pack("=HBx", self.rng.choice((2, 10)), self.rng.choice((50, 51, 108)))

    def policy_id(self):
        return self.selector() + struct.pack("=IB3x", self.rng.choice((0, 0, HIGH_INDEX + 1)), self.rng.choice((0, 1, 2, 9)))

    def body(self, kind):
        """The fixed part that a kind wants, and attributes."""
        rng = self.rng
        usual = ()
        if kind in (NEWSA, UPDSA, EXPIRE):
            fixed, usual = self.sa_info(), ((18,), (2, 20), (18, 4), (1,), (3,), (18, 23), (18, 36, 41))
            fixed += struct.pack("=B7x", 1) if kind == EXPIRE else b""
        elif kind in (*POLICIES, POLEXPIRE):
            fixed, usual = self.policy_info(), ((5,), (5, 21), (5, 31), (), (5, 16))
            fixed += struct.pack("=B7x", 1) if kind == POLEXPIRE else b""
        elif kind in (DELSA, GETSA):
            fixed, usual = self.sa_id(), ((), (13,), (21,), (26,), (25,))
        elif kind in (DELPOLICY, GETPOLICY):
            fixed, usual = self.policy_id(), ((), (21,), (31,), (16,))
        elif kind == ALLOCSPI:
            fixed, usual = self.sa_info() + struct.pack("=II", rng.choice(EDGES), rng.choice(EDGES)), ((), (31,), (21,))
        elif kind == ACQUIRE:
            fixed = bytes(24) + self.address() + self.selector() + self.policy_info() + bytes(20)
        elif kind in (NEWAE, GETAE):
            fixed, usual = self.sa_id() + self.address() + struct.pack("=II", rng.choice(EDGES), 1), ((10,), (23,), (9,), (11, 12))
        elif kind == MIGRATE:
            fixed, usual = self.policy_id(), ((17,), (17, 19), (17, 4))
        elif kind == MIGRATE_STATE:
            fixed = self.sa_id() + self.address() + self.address() + struct.pack("=IHHI", 1, 2, 0, 0)
        elif kind == MAPPING:
            fixed = self.sa_id() + bytes(4) + self.address() + self.address() + bytes(4)
        elif kind in HARMFUL[:1]:
            fixed = struct.pack("=B3x", rng.choice((0, 50, 51, 255)))
        elif kind in (SETDEFAULT, GETDEFAULT):
            fixed = bytes(rng.choice((0, 1, 2, 9)) for _ in range(3)) + bytes(1)
        else:
            fixed, usual = struct.pack("=I", rng.choice(EDGES)), ((), (1,), (3,), (4,))
        attributes = [self.attribute(one) for one in (rng.choice(usual) if usual else ())]
        if rng.random() < 0.4:
            attributes += [self.attribute() for _ in range(rng.randrange(1, 4))]
        return fixed + b"".join(attributes)


def changed(rng, data):
    """A copy that differs in a few places."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at, kind = rng.randrange(len(data) + 1), rng.randrange(6)
        if kind <= 2 and at < len(data):
            data[at] = (rng.getrandbits(8), data[at] ^ 1 << rng.randrange(8), rng.choice((0, 1, 4, 0x7F, 0x80, 0xFF)))[kind]
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            data += data[at : at + 40]
    return bytes(data)


def harmless(kind, body):
    """The same body without what could be about the tunnel beside, or none."""
    if kind in HARMFUL:
        return None
    body = bytearray(body)
    if kind in (*POLICIES, POLEXPIRE) and len(body) >= DIRECTION:
        priority, index = struct.unpack_from("=II", body, PRIORITY)
        struct.pack_into("=II", body, PRIORITY, priority | 1 << 20, index and index | HIGH_INDEX)
    elif kind in (DELPOLICY, GETPOLICY, MIGRATE) and len(body) >= ID_INDEX + 4:
        index = struct.unpack_from("=I", body, ID_INDEX)[0]
        struct.pack_into("=I", body, ID_INDEX, index and index | HIGH_INDEX)
    return bytes(body)


class Connection:
    def __init__(self, path):
        if path == "kernel":
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, x.NETLINK_XFRM)
        else:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.socket.connect(path)
            self.socket.send(MAGIC + struct.pack("=IIII", HELLO, os.getpid(), OPTION_ON, 11))
        self.waiting = {}
        self.answers = 0
        self.errors = {}

    def take(self, timeout_s):
        """Reads what is there; False where the daemon has ended the connection, or says nothing for so long."""
        if not select.select([self.socket], [], [], timeout_s)[0]:
            return False
        data = self.socket.recv(1 << 18)
        if not data:
            return False
        if data[:8] == MAGIC:
            for kind, value in struct.iter_unpack("=II", data[8:]):
                if kind == SYNC:
                    self.waiting.pop(("sync", value), None)
            return True
        while len(data) >= 16:
            length, kind, _, seq = struct.unpack_from("=IHHI", data)
            if kind == x.ERROR:
                errno = -struct.unpack_from("=i", data, 16)[0]
                self.errors[errno] = self.errors.get(errno, 0) + 1
            if kind in (x.ERROR, x.DONE):
                self.answers += self.waiting.pop(seq, None) is not None
            data = data[max(16, (length + 3) & ~3) :]
        return True


def aware(path, rng, end):
    link, make, seq = Connection(path), Maker(rng), 0
    kinds = [kind for kind in range(NEWSA, MIGRATE_STATE + 1) if kind not in HARMFUL]
    kinds += [NEWSA, NEWPOLICY, DELPOLICY, DELSA, UPDSA, UPDPOLICY] * 2
    sent = dict.fromkeys(kinds, 0)
    while time.monotonic() < end:
        while len(link.waiting) < IN_FLIGHT:
            kind = rng.choice(kinds)
            body = make.body(kind)
            if rng.random() < 0.6:
                body = changed(rng, body)
            body = harmless(kind, body)
            seq += 1
            flags = x.REQUEST | x.ACK | rng.choice((0, 0, 0, 0x100, 0x200, 0x400, 0x800, 0x300))
            link.waiting[seq] = kind
            link.socket.send(struct.pack("=IHHII", 16 + len(body), kind, flags, seq, 0) + body)
            sent[kind] += 1
        if not link.take(60):
            return {"sent": seq, "answered": link.answers, "lost": [hex(k) for k in link.waiting.values()], "kinds": len(sent)}
    while link.waiting and link.take(60):
        pass
    lost = [hex(kind) for kind in link.waiting.values()]
    return {"sent": seq, "answered": link.answers, "lost": lost, "kinds": sum(map(bool, sent.values())), "errors": link.errors}


def free(path, rng, end):
    make, sent, connections, synced = Maker(rng), 0, 0, 0
    while time.monotonic() < end:
        link = Connection(path)
        link.socket.settimeout(30)
        connections += 1
        try:
            for _ in range(rng.randrange(1, 400)):
                data = b""
                for _ in range(rng.choice((1, 1, 1, 2, 5))):
                    kind = rng.randrange(0x0E, 0x2C)
                    body = make.body(kind)
                    flags = rng.getrandbits(16) if rng.random() < 0.3 else x.REQUEST | x.ACK
                    data += struct.pack("=IHHII", 16 + len(body), kind, flags, sent, 0) + body
                if rng.random() < 0.1:
                    data = MAGIC + rng.randbytes(8 * rng.randrange(4)) if rng.random() < 0.9 else rng.randbytes(rng.randrange(300))
                if rng.random() < 0.7:
                    data = changed(rng, data)
                if data:
                    link.socket.send(data[: 1 << 17])
                    sent += 1
                while select.select([link.socket], [], [], 0)[0]:
                    if not link.take(0):
                        raise OSError("ended")
            # Who is let in is answered, whatever came before.
            link.waiting[("sync", sent)] = True
            link.socket.send(sync(sent))
            while link.waiting:
                if not link.take(60):
                    raise OSError("no answer")
            synced += 1
        except OSError:
            # Control that breaks the protocol's rules ends a connection.
            pass
        link.socket.close()
    return {"sent": sent, "connections": connections, "synced": synced}


def main():
    path, seed, seconds, how = sys.argv[1:]
    print(json.dumps({"aware": aware, "free": free}[how](path, random.Random(int(seed)), time.monotonic() + float(seconds))))


if __name__ == "__main__":
    main()
