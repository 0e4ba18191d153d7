"""What attackers have in common: seeds, changed copies of good bytes, and what a daemon must be like after them."""

import os
import random
import struct
from pathlib import Path

from . import topology as t
from .base import wait_for
from .inject import ipv4_checksum
from .planes import resident_bytes

#: The gate's share: the same inputs each time, and few.
IS_SAMPLE = os.environ.get("CULVERT_SUITES") == "sample"
SEED = "CULVERT_ATTACK_SEED"


def effort(sample, whole):
    """How much of something the gate's sample has, and how much the whole."""
    return sample if IS_SAMPLE else whole


def new_seed():
    """$CULVERT_ATTACK_SEED; else always the same in the sample, and another each time in the whole."""
    asked = os.environ.get(SEED)
    if asked:
        return int(asked)
    return 1 if IS_SAMPLE else random.SystemRandom().getrandbits(32)


#: Values at which lengths and counters break.
EDGES = (0, 1, 4, 0x0F, 0x10, 0x7F, 0x80, 0xFF)


class Mutator:
    """Makes changed copies of good inputs."""

    def __init__(self, rng):
        self.rng = rng

    def changed(self, data, others=(), keep=0, most=4, longest=1514):
        """A copy that differs in one to `most` places behind the first `keep` bytes."""
        random_ = self.rng.random
        data = bytearray(data)
        for _ in range(1 + int(random_() * most)):
            room = len(data) - keep
            if room <= 0:
                data += self.rng.randbytes(1 + int(random_() * 8))
                continue
            at = keep + int(random_() * room)
            kind = int(random_() * 9)
            if kind == 0:
                data[at] = int(random_() * 256)
            elif kind <= 2:
                data[at] ^= 1 << int(random_() * 8)
            elif kind <= 4:
                data[at] = EDGES[int(random_() * 8)]
            elif kind == 5:
                del data[at:]
            elif kind == 6:
                data[at:at] = self.rng.randbytes(1 + int(random_() * 8))
            elif kind == 7:
                data += data[at : at + 64]
            elif others:
                # The end of another input behind the front of this one.
                other = others[int(random_() * len(others))]
                data[at:] = other[min(at, len(other)) :]
        return bytes(data[:longest])


def mended(frame, rng):
    """The frame with lengths and checksum of its IP header made right, so that what is wrong lies deeper."""
    if len(frame) >= 34 and frame[12:14] == b"\x08\x00":
        data = bytearray(frame)
        data[14] = 0x40 | max(5, data[14] & 15)
        header = (data[14] & 15) * 4
        if 14 + header > len(data):
            return frame
        if rng.random() < 0.8:
            struct.pack_into("!H", data, 16, len(data) - 14)
        data[24:26] = b"\0\0"
        struct.pack_into("!H", data, 24, ipv4_checksum(bytes(data[14 : 14 + header])))
        return bytes(data)
    if len(frame) >= 54 and frame[12:14] == b"\x86\xdd":
        data = bytearray(frame)
        data[14] = 0x60 | data[14] & 15
        struct.pack_into("!H", data, 18, len(data) - 54)
        return bytes(data)
    return frame


class Health:
    """A daemon's process before an attack: what it has open and in memory."""

    def __init__(self, daemon):
        self.daemon, self.pid = daemon, daemon.process.pid
        self.files, self.bytes = self._files(), resident_bytes(self.pid)

    def _files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def growth(self):
        """Bytes of memory since then."""
        return resident_bytes(self.pid) - self.bytes

    def check(self, most_bytes):
        """It lives, has as many descriptors as before, and no more than so much more memory."""
        assert self.daemon.alive() and self.daemon.process.pid == self.pid, self.daemon.log()[-3000:]
        assert "panicked" not in self.daemon.log(), self.daemon.log()[-3000:]
        wait_for(f"{self.files} descriptors of {self.daemon.name}", lambda: self._files() <= self.files, timeout=20)
        assert self.growth() <= most_bytes, f"{self.growth()} bytes more, of {self.bytes}"


def peak_bytes(pid):
    """The largest resident set that a process ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def narrow(net):
    """Leaves hardly any neighbours to be looked for: Linux's table of them is one for all namespaces, so frames to
    random addresses would have other labs lose theirs."""
    a, b = net.gwa.host, net.gwb.host
    sides = (
        (a, "wan", t.WAN_A4, t.WAN_A6), (b, "wan", t.WAN_B4, t.WAN_B6),
        (a, "lan", t.LAN_A4, t.LAN_A6), (b, "lan", t.LAN_B4, t.LAN_B6),
    )  # fmt: skip
    for host, dev, v4, v6 in sides:
        host.ip("addr", "del", f"{v4}/24", "dev", dev)
        host.ip("addr", "del", f"{v6}/64", "dev", dev)
        host.address(dev, f"{v4}/28", f"{v6}/123")
    for host, far, via4, via6 in ((a, "2", t.WAN_B4, t.WAN_B6), (b, "1", t.WAN_A4, t.WAN_A6)):
        host.ip("route", "replace", f"10.{far}.0.0/24", "via", via4)
        host.ip("-6", "route", "replace", f"2001:db8:{far}::/64", "via", via6)
