"""Captures on a link, what the frames are, and what must not be among them.

The parser here is the lab's own and small on purpose: it judges culvert, so it shares no code
with it.
"""

import ipaddress
import re
import signal
import struct
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from .base import PATIENCE_S, wait_for
from .stream import MARK
from .topology import PROTECTED


@dataclass
class Frame:
    """One captured frame. `kind` is one of: arp, nd, ike, esp, esp-udp, keepalive, icmp, ip, other.

    `data` is the whole frame from the Ethernet header on; `esp` is where the ESP header starts.
    """

    time: float
    data: bytes
    kind: str = "other"
    src: object = None
    dst: object = None
    protocol: int = 0
    payload: int = 0
    esp: int = 0
    fragment: bool = False
    ports: tuple = field(default=(0, 0))

    @property
    def spi(self):
        return struct.unpack_from("!I", self.data, self.esp)[0]

    @property
    def sequence(self):
        return struct.unpack_from("!I", self.data, self.esp + 4)[0]

    def iv(self, length_bytes):
        return self.data[self.esp + 8 : self.esp + 8 + length_bytes]

    @property
    def ike_exchange(self):
        """The exchange type of an IKE packet (34: IKE_SA_INIT, 36: CREATE_CHILD_SA)."""
        return self.data[self.payload + 8 + (4 if 4500 in self.ports else 0) + 18]

    @property
    def is_esp(self):
        return self.kind in ("esp", "esp-udp")

    def __str__(self):
        return f"{self.kind} {self.src} > {self.dst} proto {self.protocol} len {len(self.data)}"


#: ICMPv6 types of neighbour discovery (RFC 4861) and of multicast listeners (RFC 2710, RFC 3810).
ND_TYPES = {133, 134, 135, 136, 137, 130, 131, 132, 143}


def parse(time, data):
    """Says what a frame is."""
    frame = Frame(time, data)
    if len(data) < 14:
        return frame
    ethertype = struct.unpack_from("!H", data, 12)[0]
    if ethertype == 0x0806:
        frame.kind = "arp"
    elif ethertype == 0x0800 and len(data) >= 34:
        header = (data[14] & 0x0F) * 4
        frame.src = ipaddress.IPv4Address(data[26:30])
        frame.dst = ipaddress.IPv4Address(data[30:34])
        frame.protocol = data[23]
        frame.payload = 14 + header
        offset = struct.unpack_from("!H", data, 20)[0]
        frame.fragment = bool(offset & 0x3FFF)
        _upper(frame, first=not offset & 0x1FFF)
    elif ethertype == 0x86DD and len(data) >= 54:
        frame.src = ipaddress.IPv6Address(data[22:38])
        frame.dst = ipaddress.IPv6Address(data[38:54])
        protocol, at, first = data[20], 54, True
        while protocol in (0, 43, 44, 60) and len(data) >= at + 8:
            if protocol == 44:
                frame.fragment = True
                first = first and not struct.unpack_from("!H", data, at + 2)[0] & 0xFFF8
                length = 8
            else:
                length = (data[at + 1] + 1) * 8
            protocol, at = data[at], at + length
        frame.protocol, frame.payload = protocol, at
        _upper(frame, first)
    return frame


def _upper(frame, first):
    data, at = frame.data, frame.payload
    frame.kind = "ip"
    if not first:
        if frame.protocol == 50:
            frame.kind = "esp-fragment"
        return
    if frame.protocol == 50 and len(data) >= at + 8:
        frame.kind, frame.esp = "esp", at
    elif frame.protocol == 17 and len(data) >= at + 8:
        frame.ports = struct.unpack_from("!HH", data, at)
        if 500 in frame.ports:
            frame.kind = "ike"
        elif 4500 in frame.ports:
            body = data[at + 8 : at + struct.unpack_from("!H", data, at + 4)[0]]
            if body == b"\xff":
                frame.kind = "keepalive"
            elif body[:4] == b"\0\0\0\0":
                frame.kind = "ike"
            elif len(body) >= 8:
                frame.kind, frame.esp = "esp-udp", at + 8
    elif frame.protocol == 1:
        frame.kind = "icmp"
    elif frame.protocol == 58 and len(data) > at:
        frame.kind = "nd" if data[at] in ND_TYPES else "icmp"


def read_pcap(path):
    """The frames of a pcap file (microseconds or nanoseconds, either byte order)."""
    data = path.read_bytes()
    if len(data) < 24:
        return
    magic = data[:4]
    order = "<" if magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    unit = 1e-9 if magic in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1e-6
    header = struct.Struct(order + "IIII")
    at = 24
    while at + 16 <= len(data):
        seconds, fraction, kept, _ = header.unpack_from(data, at)
        at += 16
        if at + kept > len(data):
            return  # a record that was being written
        yield parse(seconds + fraction * unit, data[at : at + kept])
        at += kept


#: What tcpdump answers to SIGUSR1: packets that it has written, that came by, and that it lost.
_FIGURES = re.compile(
    r"(\d+) packets? captured, (\d+) packets? received by filter, (\d+) packets? dropped by kernel"
)


class Capture:
    """A tcpdump on one interface of a host. `frames()` may be read while it runs.

    A filter is a pcap expression. `snap` bytes of each frame are kept (0: all of it).
    """

    def __init__(self, host, dev, expression="", snap=0):
        self.host, self.dev = host, dev
        number = len(host.lab.processes)
        self.path = host.lab.tmp / f"{host.name}-{dev}-{number}.pcap"
        self.process = host.spawn(
            "tcpdump", "-Z", "root", "-i", dev, "-p", "-n", "-U", "--immediate-mode", "-B", "65536",
            "-s", snap, "-w", self.path, *expression.split(),
        )  # fmt: skip
        self.process.wait_output("listening on")

    def frames(self):
        """Every frame until now."""
        return list(read_pcap(self.path)) if self.path.exists() else []

    def _figures(self):
        """Asks tcpdump how many packets it has written or lost, and how many came by."""
        before = len(_FIGURES.findall(self.process.output()))
        self.process.kill(signal.SIGUSR1)
        wait_for("figures of tcpdump", lambda: len(_FIGURES.findall(self.process.output())) > before)
        captured, received, dropped = map(int, _FIGURES.findall(self.process.output())[-1])
        return captured + dropped, received

    def stop(self):
        """Ends it and returns all frames. A capture that lost frames is an error."""
        time.sleep(0.1)  # what is under way still has to come by
        _, received = self._figures()
        seen = []

        def has_all():
            seen.append(self._figures()[0])
            # What came by before it was bound to the interface is counted as received, and never given to it.
            return seen[-1] >= received or len(seen) > 40 and seen[-40] == seen[-1]

        wait_for(f"the capture on {self.dev}", has_all)
        self.process.stop(signal.SIGINT, timeout=PATIENCE_S)
        lost = re.search(r"(\d+) packets dropped by kernel", self.process.output())
        assert lost and lost.group(1) == "0", self.process.output()
        return self.frames()


def one_by_one(*hosts):
    """Has hosts send the pieces of a super-packet one by one, for tests that count frames: a port of packet sockets sends
    ESP in UDP in super-packets, and a capture sees each as one frame."""
    for host in hosts:
        host.run("ethtool", "-K", "wan", "tx-udp-segmentation", "off")


def kinds(frames):
    """How many frames of each kind."""
    return dict(Counter(frame.kind for frame in frames))


def leaks(frames, protected=PROTECTED):
    """Frames that carry in the clear what must be protected: by address, or by its content."""
    networks = [ipaddress.ip_network(p) for p in protected]
    found = []
    for frame in frames:
        # IKE always bypasses: MOBIKE also probes paths between protected addresses.
        mine = () if frame.kind == "ike" else (frame.src, frame.dst)
        addresses = [a for a in mine if a is not None]
        if any(a.version == n.version and a in n for a in addresses for n in networks):
            found.append(frame)
        elif MARK in frame.data:
            found.append(frame)
    return found


def assert_only_protected(frames, protected=PROTECTED, allow=("icmp",)):
    """The link carries ESP, IKE and neighbour discovery, and nothing of the protected networks."""
    found = leaks(frames, protected)
    assert not found, f"{len(found)} in the clear: " + "; ".join(map(str, found[:5]))
    fine = {"arp", "nd", "ike", "esp", "esp-udp", "esp-fragment", "keepalive", *allow}
    others = [f for f in frames if f.kind not in fine and not f.fragment]
    assert not others, "; ".join(map(str, others[:5]))


class IvRecord:
    """Sequence numbers and IVs per SA, over as many captures as wanted.

    In counter modes a repeated IV under one key breaks the cipher; in any mode a repeated sequence
    number on the wire means a packet that the receiver must refuse.
    """

    def __init__(self, iv_len_bytes=8):
        self.iv_len_bytes = iv_len_bytes
        self.sequences = defaultdict(Counter)
        self.ivs = defaultdict(Counter)

    def add(self, frames):
        for frame in frames:
            if frame.is_esp and not frame.fragment:
                key = (str(frame.dst), frame.spi)
                self.sequences[key][frame.sequence] += 1
                if self.iv_len_bytes:
                    self.ivs[key][frame.iv(self.iv_len_bytes)] += 1
        return self

    def packets(self):
        return sum(sum(c.values()) for c in self.sequences.values())

    def assert_no_repeat(self):
        assert self.packets() > 0, "no ESP was captured: nothing was tested"
        for what, table in (("sequence number", self.sequences), ("IV", self.ivs)):
            for (dst, spi), counter in table.items():
                twice = [value for value, times in counter.items() if times > 1]
                assert not twice, f"{what} repeated under SPI {spi:#010x} to {dst}: {twice[:5]}"
