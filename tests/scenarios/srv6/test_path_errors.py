"""Packets that are too big for a link between two segments: a Linux router on the way says so to the headend, and the
headend to who sends them."""

import errno
import os
import socket
import struct

import pytest

from lab import topology as t
from lab.base import wait_for
from lab.traffic import Iperf, assert_ping

pytestmark = pytest.mark.skipif(
    os.environ.get("CULVERT_SUITES") == "sample", reason="not in the sample: make scenarios-full ONLY=srv6"
)

NARROW = 1380
PORT = 7777
PMTUDISC_PROBE = 3
#: Of the first router, and of each site by number and family.
ROUTER = "fc00:a::1"


def last(side, family):
    return f"fc00:{side}::{family}"


#: By family: server, what fits the narrow link behind the headers of segments (with a list of two, and without one),
#: length of headers in front of a UDP payload, option for DF as asked (linux/in.h).
FAMILIES = {4: (t.SERVER4, NARROW - 80, 28, 10), 6: (t.SERVER6, NARROW - 40, 48, 23)}


def lead(net):
    """From site A through the first router, which is a segment, to site B, and back without it."""
    r1, r3 = net.lab.hosts["r1"], net.lab.hosts["r3"]
    r1.ip("-6", "route", "add", f"{ROUTER}/128", "encap", "seg6local", "action", "End", "dev", "core")
    for host, prefix, via in (
        (r1, "fc00:1::/64", t.FAR_A6), (net.mid, "fc00:1::/64", "2001:db8:c1::1"),
        (net.mid, "fc00:2::/64", "2001:db8:c3::3"), (r3, "fc00:2::/64", t.FAR_B6),
    ):  # fmt: skip
        host.ip("-6", "route", "add", prefix, "via", via)
    ends = {1: (net.gwa.host, t.CLIENT4, t.CLIENT6), 2: (net.gwb.host, t.SERVER4, t.SERVER6)}
    for side, (host, host4, host6) in ends.items():
        host.ip("sr", "tunsrc", "set", t.FAR_A6 if side == 1 else t.FAR_B6)
        local = ("encap", "seg6local", "action")
        host.ip("-6", "route", "add", f"{last(side, 4)}/128", *local, "End.DX4", "nh4", host4, "dev", "lan")
        host.ip("-6", "route", "add", f"{last(side, 6)}/128", *local, "End.DX6", "nh6", host6, "dev", "lan")
        far = 3 - side
        for family, prefix in ((4, f"10.{far}.0.0/24"), (6, f"2001:db8:{far}::/64")):
            segments = last(far, family)
            mode = "encap.red"
            if (side, family) == (1, 4):
                segments, mode = f"{ROUTER},{segments}", "encap"
            host.ip(f"-{family}", "route", "replace", prefix, "encap", "seg6", "mode", mode, "segs", segments, "dev", "wan")


def send(sock, to, size):
    """A datagram, whatever an earlier one has drawn."""
    for _ in range(5):
        try:
            sock.sendto(struct.pack("!H", size) + b"\xa5" * (size - 2), (to, PORT))
            return
        except OSError as error:
            if error.errno not in (errno.EMSGSIZE, errno.ECONNREFUSED):
                raise


@pytest.mark.parametrize("family", FAMILIES)
def test_a_router_between_segments_says_what_fits(network, family):
    # Linux puts segments around what its checksum is missing in yet, where a site leaves that to the card.
    net = network("routers", {"narrow": NARROW, "offload": False})
    lead(net)
    gwa, (to, fits, headers, discovery) = net.gwa, FAMILIES[family]
    gwa.daemon.write_config(gwa.daemon.config.read_text() + f'\n[srv6]\nsource = "{t.FAR_A6}"\ndomain = ["wan"]\n')
    gwa.plane.start(gwa)
    wait_for("segments", lambda: gwa.daemon.json("route")["segments"])
    assert_ping(net.client, to)
    work = lambda name: gwa.daemon.stats()["work"][name]  # noqa: E731
    assert work("srv6-path-mtu-reports") == 0
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    level = socket.IPPROTO_IP if family == 4 else socket.IPPROTO_IPV6
    with net.client.socket(kind, socket.SOCK_DGRAM) as sock, net.server.socket(kind, socket.SOCK_DGRAM) as sink:
        sock.setsockopt(level, discovery, PMTUDISC_PROBE)
        sink.bind(("", PORT))
        sink.settimeout(2)

        def told():
            # Fits the first link.
            send(sock, to, 1400 - headers)
            return f"mtu {fits} " in net.client.ip(f"-{family}", "route", "get", to).stdout + " "

        wait_for("what fits", told, step=0.2)
        assert work("srv6-path-mtu-reports") >= 1, gwa.daemon.stats()
        # What fits arrives, and a byte more does not.
        send(sock, to, fits + 1 - headers)
        send(sock, to, fits - headers)
        assert len(sink.recv(65535)) == fits - headers
    assert gwa.daemon.drops().get("out-too-big"), gwa.daemon.drops()
    assert Iperf(net.server).run(net.client, to, total=2_000_000)["bytes"] > 1_000_000
