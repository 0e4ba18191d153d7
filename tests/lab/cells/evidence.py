"""What was seen where, while traffic ran: captures on each link, and culvert's own counters."""

import struct
from collections import Counter

from ..capture import Capture, kinds, leaks, parse
from ..stream import MARK
from . import gtpu, operations

#: Where is looked, by place: the host and the interface.
PLACES = {
    "lte": ("lte", "eth0"),
    "backhaul": ("router", "cell"),
    "linux": ("nr", "culvert0"),
    "app0": ("nr", "app0"),
    "core": ("core", "eth0"),
}

#: What may be on the backhaul.
SEALED = {"arp", "nd", "ike", "esp", "esp-udp", "keepalive"}


def teid(frame):
    """The TEID of a G-PDU in clear, else None."""
    if frame.kind != "ip" or frame.protocol != 17 or gtpu.PORT not in frame.ports:
        return None
    found = gtpu.parse(frame.data[frame.payload + 8 :])
    return found[1] if found and found[0] == gtpu.G_PDU else None


def what(frame):
    """What a frame is, a word more than `Frame.kind`: gtpu, dns, tcp."""
    if teid(frame) is not None:
        return "gtpu"
    if frame.kind != "ip":
        return frame.kind
    if frame.protocol == 6:
        return "tcp"
    return "dns" if frame.protocol == 17 and operations.DNS_PORT in frame.ports else "other"


def _with_ethernet(frame):
    """A frame of a TUN interface, whose captures begin with the IP header."""
    is_bare = frame.kind == "other" and frame.data[:1] == b"\x45"
    return parse(frame.time, bytes(12) + b"\x08\x00" + frame.data) if is_bare else frame


def capture(net, place):
    """A capture at one of the places."""
    host, interface = PLACES[place]
    return Capture(net.lab.hosts[host], interface)


class Watch:
    """Captures at all places, and counters, from now until `stop`; `wire` is that of the backhaul, which has begun before."""

    def __init__(self, net, wire):
        self.net = net
        self.captures = {place: wire if place == "backhaul" else capture(net, place) for place in PLACES}
        self.before = self._counters()

    def _counters(self):
        daemon = self.net.nr.daemon
        ports = {row["interface"]: row for row in daemon.json("port")}
        stats = daemon.stats()
        return {
            "app_out": ports["app0"]["tx_packets"],
            "app_in": ports["app0"]["rx_packets"],
            "hits": stats["work"]["flow-hits"],
            "misses": stats["work"]["flow-misses"],
            "drops": sum(daemon.drops().values()),
        }

    def stop(self):
        now = self._counters()
        frames = {place: capture.stop() for place, capture in self.captures.items()}
        frames["linux"] = [_with_ethernet(frame) for frame in frames["linux"]]
        return Seen(frames, {name: now[name] - self.before[name] for name in now}, self.net.nr.daemon.json("sa"))


class Seen:
    """Frames by place, counters by name, and the SAs of the NR modem."""

    def __init__(self, frames, counters, sas):
        self.frames, self.counters, self.sas = frames, counters, sas

    def find(self, place, kind=None, **which):
        """The frames of a kind at a place, with this `src`, `dst`, or one of the `teids`."""
        return [frame for frame in self.frames[place] if _is(frame, kind, **which)]

    def count(self, place, kind=None, **which):
        """How many `find` finds."""
        return len(self.find(place, kind, **which))

    def kinds(self, place):
        return kinds(self.frames[place])

    def spis(self, place="backhaul"):
        """Packets by SPI."""
        return Counter(frame.spi for frame in self.frames[place] if frame.is_esp)

    def clear(self, protected):
        """Frames on the backhaul that should not have been in clear there."""
        return leaks(self.frames["backhaul"], protected) + [
            frame for frame in self.frames["backhaul"] if frame.kind not in SEALED or MARK in frame.data
        ]

    def addresses(self, place, not_in=()):
        """Addresses that sent or were sent GTP-U, TCP or DNS at a place."""
        found = {str(a) for f in self.frames[place] if what(f) in ("gtpu", "tcp", "dns") for a in (f.src, f.dst)}
        return found - set(not_in)


def _is(frame, kind=None, src=None, dst=None, teids=None):
    return (
        (kind is None or what(frame) == kind)
        and (src is None or str(frame.src) == src)
        and (dst is None or str(frame.dst) == dst)
        and (teids is None or teid(frame) in teids)
    )


def udp_ports(frames):
    """Source and destination ports of ESP in UDP."""
    return {struct.unpack_from("!HH", frame.data, frame.payload) for frame in frames if frame.kind == "esp-udp"}
