"""The same frames to Linux's own seg6 and seg6local and to culvert, which learns its routes from Linux: what comes out
is the same, byte for byte, but for the hop limits of headends, where Linux does not spend the one that RFC 8986 has it
spend inside (5.1, S05; 4.13, S12), and for the label of what is around a frame, which is free."""

import os
import struct
import time
from ipaddress import ip_address

import pytest

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.inject import Injector
from lab.traffic import assert_ping

pytestmark = pytest.mark.skipif(
    os.environ.get("CULVERT_SUITES") == "sample", reason="not in the sample: make scenarios-full ONLY=srv6"
)

TABLE = "100"
#: At gateway B, whence nothing comes back.
FAR = "fc00:2::9"

ROUTES = [
    f"{FAR}/128 via {t.WAN_B6}",
    f"fc00:2::ff/128 via {t.WAN_B6}",
    f"fc00:9::/32 via {t.WAN_B6}",
    f"fc00:77::1/128 via {t.WAN_B6} table {TABLE}",
    f"2001:db8:1::/64 dev lan table {TABLE}",
    "fc00:1::1/128 encap seg6local action End dev wan",
    "fc00:1::2/128 encap seg6local action End flavors psp dev wan",
    f"fc00:1::3/128 encap seg6local action End.X nh6 {t.WAN_B6} dev wan",
    f"fc00:1::7/128 encap seg6local action End.T table {TABLE} dev wan",
    f"fc00:1::d6/128 encap seg6local action End.DX6 nh6 {t.CLIENT6} dev lan",
    f"fc00:1::d4/128 encap seg6local action End.DX4 nh4 {t.CLIENT4} dev lan",
    f"fc00:1::6/128 encap seg6local action End.DT6 table {TABLE} dev lan",
    "fc00:1::d2/128 encap seg6local action End.DX2 oif lan dev lan",
    f"fc00:1::b6/128 encap seg6local action End.B6.Encaps srh segs {FAR} dev wan",
    "fc00:9:1::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev wan",
    f"2001:db8:40::/64 encap seg6 mode encap segs {FAR},fc00:2::2 dev wan",
    f"2001:db8:41::/64 encap seg6 mode encap.red segs {FAR},fc00:2::2 dev wan",
    f"2001:db8:42::/64 encap seg6 mode encap.red segs {FAR} dev wan",
    f"2001:db8:43::/64 encap seg6 mode inline segs {FAR} dev wan",
    f"2001:db8:44::/64 encap seg6 mode l2encap segs {FAR} dev wan",
]
ROUTES4 = [f"10.40.0.0/24 encap seg6 mode encap segs {FAR},fc00:2::2 dev wan"]


def v6(text):
    return ip_address(text).packed


def ip6(next_header, payload, src, dst, hops=64, first=0x6AB12345):
    return struct.pack("!IHBB", first, len(payload), next_header, hops) + v6(src) + v6(dst) + payload


def srh(next_header, left, *segments):
    """Segments in the order in which packets pass them."""
    head = struct.pack("!BBBBBBH", next_header, 2 * len(segments), 4, left, len(segments) - 1, 0, 0)
    return head + b"".join(v6(s) for s in reversed(segments))


def udp(number, tail=b""):
    """Without a checksum, which nobody looks at on the way."""
    return struct.pack("!HHHH", 1000 + number, 2000, 8 + len(tail), 0xFFFF) + tail


def inner6(number, dst=t.CLIENT6):
    return ip6(17, udp(number), "2001:db8:2::77", dst)


def inner4(number, dst=t.CLIENT4, src="10.2.0.77"):
    words = [0x4500, 28, number, 0x4000, 0x4011, 0]
    raw = struct.pack("!6H", *words) + ip_address(src).packed + ip_address(dst).packed
    total = sum(struct.unpack("!10H", raw))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return raw[:10] + struct.pack("!H", total ^ 0xFFFF) + raw[12:] + udp(number)


def at(segment, number, *, further=FAR, inner=None, kind=41):
    """A packet at a segment, with one more behind it."""
    inner = inner or inner6(number)
    return ip6(43, srh(kind, 1, segment, further) + inner, "fc00:2::ff", segment)


def last(segment, inner, kind=41):
    return ip6(43, srh(kind, 0, "fc00:1::1", segment) + inner, "fc00:2::ff", segment)


def reduced(segment, inner, kind=41):
    return ip6(kind, inner, "fc00:2::ff", segment)


def frames_from_wan():
    frame = v6(t.CLIENT6)[:12] + b"\x86\xdd" + inner6(30)
    return {
        "End": at("fc00:1::1", 1),
        "End with an extension header in front": ip6(
            60, struct.pack("!BB", 43, 0) + b"\1\4\0\0\0\0" + srh(41, 1, "fc00:1::1", FAR) + inner6(2), "fc00:2::ff", "fc00:1::1"
        ),
        "End, PSP": at("fc00:1::2", 3),
        "End, PSP, two left": ip6(43, srh(41, 2, "fc00:1::2", FAR, "fc00:2::2") + inner6(4), "fc00:2::ff", "fc00:1::2"),
        "End, not a segment more": last("fc00:1::1", inner6(5)),
        "End, more left than there are": ip6(43, srh(41, 9, "fc00:1::1", FAR) + inner6(6), "fc00:2::ff", "fc00:1::1"),
        "End, a reduced list": ip6(43, srh(41, 1, FAR) + inner6(7), "fc00:2::ff", "fc00:1::1"),
        "End.X": at("fc00:1::3", 8, further="fc00:78::1"),
        "End.T": at("fc00:1::7", 9, further="fc00:77::1"),
        "End.T, nowhere": at("fc00:1::7", 10, further="fc00:79::1"),
        "End.DX6": last("fc00:1::d6", inner6(11)),
        "End.DX6, reduced": reduced("fc00:1::d6", inner6(12)),
        "End.DX6, segments left": at("fc00:1::d6", 13),
        "End.DX6 of IPv4": reduced("fc00:1::d6", inner4(14), kind=4),
        "End.DX4": last("fc00:1::d4", inner4(15), kind=4),
        "End.DX4, reduced": reduced("fc00:1::d4", inner4(16), kind=4),
        "End.DT6": last("fc00:1::6", inner6(17)),
        "End.DT6, reduced": reduced("fc00:1::6", inner6(18)),
        "End.DT6, nowhere": reduced("fc00:1::6", inner6(19, dst="2001:db8:99::1")),
        "End.DX2": reduced("fc00:1::d2", frame, kind=143),
        "End.B6.Encaps": at("fc00:1::b6", 20),
        "NEXT-CSID": reduced("fc00:9:1:2:3::", inner6(21)),
        "NEXT-CSID, and a list": at("fc00:9:1:2::", 22),
        "NEXT-CSID, the next container": at("fc00:9:1::", 23),
    }


def frames_from_lan():
    src = t.CLIENT6
    of = lambda n, dst: ip6(17, udp(n), src, dst)  # noqa: E731
    return {
        "H.Encaps": of(40, "2001:db8:40::1"),
        "H.Encaps.Red": of(41, "2001:db8:41::1"),
        "H.Encaps.Red, one segment": of(42, "2001:db8:42::1"),
        "H.Insert": of(43, "2001:db8:43::1"),
        "H.L2Encaps": of(44, "2001:db8:44::1"),
        "H.Encaps of IPv4": inner4(45, dst="10.40.0.1", src=t.CLIENT4),
    }


def headend_free(packet):
    """Without what a headend chooses: the hop limit that it spends inside, and that outside."""
    packet = bytearray(packet)
    packet[7] = 0
    at = 40
    if packet[6] == 143 or packet[6] == 43 and packet[40] == 143:
        packet[:4] = b"\x60\0\0\0"
    if packet[6] == 43:
        inside, at = packet[40], 40 + (packet[41] + 1) * 8
    else:
        inside = packet[6]
    if inside == 41:
        packet[at + 7] = 0
    elif inside == 4:
        packet[at + 8] = 0
        packet[at + 10 : at + 12] = b"\0\0"
    return bytes(packet)


def outputs(net, injected, captures):
    """What comes out for each packet, one at a time: the names of wires and IP packets."""
    found = {}
    for name, (injector, frame) in injected.items():
        before = [len(c.frames()) for c in captures.values()]
        injector.send(frame)
        time.sleep(0.15)
        out = []
        for (wire, capture), had in zip(captures.items(), before):
            for seen in capture.frames()[had:]:
                # The frame itself, on the wire that it was put on.
                if seen.data[14:] != frame[14:] and seen.kind not in ("arp", "nd"):
                    out.append((wire, seen.data[14:]))
        found[name] = out
    return found


def test_what_comes_out_is_what_comes_out_of_linux(network):
    net = network()
    gwa = net.gwa
    for route in ROUTES:
        gwa.host.ip("-6", "route", "add", *route.split())
    for route in ROUTES4:
        gwa.host.ip("-4", "route", "add", *route.split())
    gwa.host.ip("sr", "tunsrc", "set", "fc00:1::ff")
    gwa.daemon.write_config(gwa.daemon.config.read_text() + '\n[srv6]\nsource = "fc00:1::ff"\ndomain = ["wan"]\n')
    net.gwb.plane.start(net.gwb)
    # Neighbours are known.
    assert_ping(gwa.host, t.CLIENT6, count=1)
    assert_ping(gwa.host, t.CLIENT4, count=1)
    assert_ping(gwa.host, t.WAN_B6, count=1)
    captures = {"lan": Capture(net.client, "eth0"), "wan": Capture(net.mid, "west")}
    wan, lan = Injector(net.mid, "west"), Injector(net.client, "eth0")
    mac = lambda host, dev: bytes.fromhex(host.mac(dev).replace(":", ""))  # noqa: E731
    to_wan = mac(gwa.host, "wan") + mac(net.gwb.host, "wan")
    to_lan = mac(gwa.host, "lan") + mac(net.client, "eth0")
    kind = lambda packet: b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\0"  # noqa: E731
    injected = {name: (wan, to_wan + kind(p) + p) for name, p in frames_from_wan().items()}
    injected |= {name: (lan, to_lan + kind(p) + p) for name, p in frames_from_lan().items()}
    by_linux = outputs(net, injected, captures)
    gwa.plane.start(gwa)
    wait_for("segments", lambda: "segments" in gwa.daemon.json("route") and gwa.daemon.json("route")["segments"])
    # Once by a decision, and once by its plan.
    for _ in range(2):
        by_culvert = outputs(net, injected, captures)
        differs = {}
        for name, linux in by_linux.items():
            culvert = [one for one in by_culvert[name] if not is_error(one[1])]
            linux = [one for one in linux if not is_error(one[1])]
            if name.startswith(("H.", "End.B6")):
                linux, culvert = ([(w, headend_free(p)) for w, p in one] for one in (linux, culvert))
            if linux != culvert:
                differs[name] = ([(w, p.hex()) for w, p in linux], [(w, p.hex()) for w, p in culvert])
        assert not differs, "\n".join(f"{name}\n  {one}\n  {other}" for name, (one, other) in differs.items())
    assert sum(len(out) for out in by_linux.values()) >= 20, by_linux
    stats = gwa.daemon.stats()["work"]
    assert stats["srv6-steps"] >= 20 and stats["srv6-decapsulated"] >= 14 and stats["srv6-encapsulated"] >= 12, stats
    # What Linux drops without a word culvert answers.
    errors = {name: [p for _, p in out if is_error(p)] for name, out in by_culvert.items()}
    assert {name for name, found in errors.items() if found and found[0][40] == 4} == {
        "End, not a segment more", "End, more left than there are", "End.DX6, segments left", "End.DX6 of IPv4",
    }, errors  # fmt: skip


def is_error(packet):
    """ICMPv6 errors."""
    return packet[0] >> 4 == 6 and packet[6] == 58 and packet[40] < 128
