"""What overlays do with congestion, sizes, fragments and checksums, with Linux's own interface at the other end."""

import json
import re
import struct

import pytest

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.overlays import BUFFERED, both_ways, carried, ends, is_v6, overlay, tcp, work
from lab.traffic import Iperf, assert_ping, ping

#: Where the machine's own kernel has the interface, and where a guest's is needed.
HERE = [("culvert+plain", kind) for kind in ("vxlan", "vxlan6")]
IN_GUEST = [("culvert+kernel", kind) for kind in ("gre", "ip6gre", "geneve")]

#: Bytes of headers.
OVERHEAD = {"vxlan": 50, "vxlan6": 70, "gre": 24, "ip6gre": 56, "geneve": 50}


def each(cases=tuple(HERE + IN_GUEST)):
    """A test for each kind of overlay, in clear."""
    return pytest.mark.parametrize("plane, kind", cases, indirect=["plane"])


def pair(network, kind, *more, **values):
    """Both sites, with the overlay between them and neighbours known."""
    net = network(**values)
    overlay(net.gwa, 1, kind, *more)
    overlay(net.gwb, 2, kind, *more)
    for gateway in net.gateways():
        # Linux takes the headers off by itself where the interface is bound to a device, and of GRE.
        gateway.host.ip("link", "set", "ov", "mtu", str(1500 - OVERHEAD[kind]))
    net.gwa.start()
    wait_for("the overlay", lambda: net.gwa.daemon.json("route")["overlays"][0]["carried"])
    both_ways(net)
    return net


def sides(net):
    """Both directions, in both families: from where, to where."""
    return [
        (net.client, t.SERVER4), (net.server, t.CLIENT4), (net.client, t.SERVER6), (net.server, t.CLIENT6),
    ]  # fmt: skip


def outer(frames, kind):
    """Outer IP headers of an overlay's packets between the gateways' addresses, from the IP header on."""
    addresses = {*map(str, ends(kind))}
    return [f.data[14:] for f in frames if {str(f.src), str(f.dst)} == addresses and f.kind not in ("arp", "nd", "icmp", "icmp6")]


def traffic_class(packet):
    return packet[1] if packet[0] >> 4 == 4 else struct.unpack_from("!H", packet)[0] >> 4 & 0xFF


@each()
def test_congestion(network, kind):
    """RFC 6040: what is outside is what was inside, and congestion on the way is told inside, or drops what knows nothing
    of it."""
    net = pair(network, kind)
    for near, to in sides(net)[::2]:
        for ecn in range(4):
            wire = Capture(net.mid, "west")
            # The traffic class with its lower two bits, which `dscp` shifts away.
            answer = near.run("ping", "-c", "3", "-i", "0.1", "-W", "5", "-Q", str(0x40 | ecn), to)
            assert "3 received" in answer.stdout, answer.stdout
            seen = {traffic_class(packet) & 3 for packet in outer(wire.stop(), kind)}
            assert ecn in seen, (ecn, seen)
    # The middle marks all that the far end sends as congested (RFC 3168).
    family = "ip6" if is_v6(kind) else "ip"
    rules = f"""table netdev marks {{
        chain in {{
            type filter hook ingress device "east" priority 0;
            {family} ecn set ce
        }}
    }}"""
    net.mid.run("nft", "-f", "-", stdin=rules)
    for near, to in ((net.server, t.CLIENT4), (net.server, t.CLIENT6)):
        lan, wire = Capture(net.client, "eth0"), Capture(net.mid, "west")
        before = net.gwa.daemon.drops()["in-ecn"]
        told = near.run("ping", "-c", "3", "-i", "0.1", "-W", "1", "-Q", str(0x41), to, check=False)
        frames = [f.data[14:] for f in lan.stop() if str(f.dst) == to]
        marked = [p for p in outer([f for f in wire.stop() if str(f.src) == ends(kind)[1]], kind) if traffic_class(p) & 3 == 3]
        assert len(marked) >= 3, "not marked"
        assert "3 received" in told.stdout and {traffic_class(p) & 3 for p in frames} == {3}, (told.stdout, frames)
        assert net.gwa.daemon.drops()["in-ecn"] == before
        lost = near.run("ping", "-c", "3", "-i", "0.1", "-W", "1", to, check=False)
        assert "0 received" in lost.stdout, lost.stdout
        assert net.gwa.daemon.drops()["in-ecn"] == before + 3


def told_mtu(near, to, size=1350):
    """The MTU that a sender is told, which may not fragment."""
    words = ("ping", "-c", "2", "-W", "2", "-M", "do", "-s", str(size), to)
    said = near.run(*words, check=False)
    found = re.search(r"mtu ?= ?(\d+)", said.stdout + said.stderr)
    assert found, said.stdout + said.stderr
    return int(found[1])


@each()
def test_answers_of_routers_come_through(network, kind):
    """Too-big answers of the router behind the overlay: Linux's own by culvert, and culvert's own to Linux."""
    net = pair(network, kind)
    for gateway, host in ((net.gwb, net.server), (net.gwa, net.client)):
        gateway.host.ip("link", "set", "lan", "mtu", "1300")
        host.ip("link", "set", "eth0", "mtu", "1300")
    # The near link would tell the sender by itself.
    for near, to, far in (
        (net.client, t.SERVER4, net.gwb), (net.client, t.SERVER6, net.gwb), (net.server, t.CLIENT4, net.gwa), (net.server, t.CLIENT6, net.gwa),
    ):  # fmt: skip
        own = net.gwa if far is net.gwb else net.gwb
        own.host.ip("link", "set", "lan", "mtu", "1500")
        near.ip("link", "set", "eth0", "mtu", "1500")
        wait_for("the answer", lambda near=near, to=to: told_mtu(near, to) == 1300)
        own.host.ip("link", "set", "lan", "mtu", "1300")
        near.ip("link", "set", "eth0", "mtu", "1300")


@each()
def test_a_smaller_path_to_the_far_end(network, kind):
    """Senders of both families are told what is left of it, and what may be cut is."""
    net = pair(network, kind)
    _, far = ends(kind)
    net.gwa.host.ip(*(["-6"] if is_v6(kind) else []), "route", "replace", far, "dev", "wan", "mtu", "lock", "1390")
    expected = 1390 - OVERHEAD[kind]
    for to in (t.SERVER4, t.SERVER6):
        wait_for("the MTU", lambda to=to: told_mtu(net.client, to, 1450 - 48) == expected)
        told = ping(net.client, to, count=3, size=1400, interval=0.5, wait=5)
        assert told["received"] >= 2, told["text"]


@pytest.mark.parametrize("plane", ["culvert+plain"], indirect=True)
def test_less_than_any_sender_of_ipv6_sends(network):
    """A path that leaves less than 1280 bytes inside: Linux cuts the outer packet (RFC 2473 section 7.1)."""
    net = pair(network, "vxlan")
    net.gwa.host.ip("route", "replace", t.WAN_B4, "dev", "wan", "mtu", "lock", "1320")
    wait_for("the MTU", lambda: told_mtu(net.client, t.SERVER4, 1300) == 1270)
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER6, count=3, size=1232, wait=5)
    fragments = [f for f in wire.stop() if f.fragment and str(f.src) == t.WAN_A4]
    assert len(fragments) >= 6, fragments


@each()
def test_fragments(network, kind):
    """Fragments inside go through as they are; those of outer packets Linux puts together."""
    net = pair(network, kind)
    for near, to in sides(net):
        # The sender learns what fits first; over IPv6 nobody else may cut.
        wait_for("the MTU", lambda near=near, to=to: told_mtu(near, to, 1450) == 1500 - OVERHEAD[kind])
    encapsulated, decapsulated = (work(net.gwa, f"overlay-{what}capsulated") for what in ("en", "de"))
    for near, to in sides(net):
        assert_ping(near, to, count=3, size=4000, wait=5)
    # Three fragments a packet, there and back.
    assert work(net.gwa, "overlay-encapsulated") - encapsulated >= 36
    assert work(net.gwa, "overlay-decapsulated") - decapsulated >= 36


@each([case for case in HERE + IN_GUEST if case[1] in ("vxlan", "geneve")])
def test_outer_packets_in_pieces(network, kind):
    """An interface whose MTU leaves no room for the headers: outer packets of Linux's come in fragments, which it puts
    together itself; culvert makes none."""
    net = pair(network, kind)
    net.gwb.host.ip("link", "set", "ov", "mtu", "1500")
    net.gwa.host.ip("link", "set", "ov", "mtu", "1500")
    before = work(net.gwa, "overlay-decapsulated")
    wire = Capture(net.mid, "west")
    # Over IPv6 Linux tells the sender what fits in any case.
    assert_ping(net.server, t.CLIENT4, count=4, size=1440, interval=0.2, wait=5)
    fragments = [f for f in wire.stop() if f.fragment and str(f.src) == ends(kind)[1]]
    assert len(fragments) >= 8, fragments
    assert work(net.gwa, "overlay-decapsulated") == before, "Linux's to put together"


@pytest.mark.parametrize("plane, kind, more", [
    ("culvert+plain", "vxlan6", ()), ("culvert+plain", "vxlan6", ("udp6zerocsumtx", "udp6zerocsumrx")),
    ("culvert+plain", "vxlan", ("noudpcsum",)), ("culvert+plain", "vxlan", ("udpcsum",)),
    ("culvert+kernel", "geneve", ("udpcsum",)),
], indirect=["plane"])  # fmt: skip
def test_udp_checksums(network, kind, more):
    """With and without a UDP checksum outside (RFC 6935, RFC 6936)."""
    net = pair(network, kind, *more)
    wire = Capture(net.mid, "west")
    both_ways(net)
    carried(net, [net.gwa], 100)
    header = 40 if is_v6(kind) else 20
    sums = {bool(packet[header + 6] or packet[header + 7]) for packet in outer(wire.stop(), kind)}
    has_checksum = "udpcsum" in more or is_v6(kind) and not more
    assert sums == {has_checksum}, sums
    tcp(net, net.gwa)


@pytest.mark.parametrize("plane", ["culvert+plain"], indirect=True)
def test_a_missing_udp_checksum_over_ipv6_is_linuxs_to_judge(network):
    """The far end sends none, and this end's interface takes none like that: Linux drops what comes."""
    net = network()
    overlay(net.gwa, 1, "vxlan6")
    overlay(net.gwb, 2, "vxlan6", "udp6zerocsumtx", "udp6zerocsumrx")
    net.gwa.start()
    told = ping(net.client, t.SERVER4, count=5, interval=0.2, wait=1)
    assert told["received"] == 0, told["text"]
    assert work(net.gwa, "overlay-decapsulated") == 0


@pytest.mark.parametrize("more, mark", [(("noudpcsum",), 0), (("udpcsum",), 0), (("noudpcsum",), 7)])
@pytest.mark.parametrize("plane", ["culvert"], indirect=True)
def test_linuxs_own_in_super_packets(network, more, mark):
    """An overlay that Linux carries out, in ESP: its super-packets come and go whole at the private interface, with
    their marks in front if they have some."""
    net = network(mode="transport", local_a=t.WAN_A4, ts_a=f"{t.WAN_A4}/32", ts_b=f"{t.WAN_B4}/32")
    for gateway, side in ((net.gwa, 1), (net.gwb, 2)):
        overlay(gateway, side, "vxlan", *more, is_named=False)
        gateway.host.ip("link", "set", "ov", "mtu", "1300")
    if mark:
        rule = f"""table inet marks {{
            chain out {{
                type route hook output priority mangle;
                udp dport 4789 meta mark set {mark}
            }}
        }}"""
        net.gwa.host.run("nft", "-f", "-", stdin=rule)
    net.up()
    assert_ping(net.gwa.host, "10.9.0.2", count=3, wait=5)
    features = net.gwa.host.run("ethtool", "-k", "culvert0").stdout
    release = tuple(map(int, re.match(r"(\d+)\.(\d+)", net.gwa.host.run("uname", "-r").stdout).groups()))
    assert ("tx-udp_tnl-segmentation: on" in features) == (release >= (6, 17)), (release, features)
    before = [counted(net.gwa, "tx"), counted(net.gwb, "rx")]
    server = Iperf(net.gwb.host)
    done = server.run(net.gwa.host, "10.9.0.2", total=16 << 20)
    server.stop()
    assert done["bytes"] >= (16 << 20) - BUFFERED, done
    for gateway in net.gateways():
        assert not any(port.get("faults") for port in gateway.daemon.json("port"))
    if release < (6, 17):
        return
    for (packets, size), (packets_before, size_before) in zip([counted(net.gwa, "tx"), counted(net.gwb, "rx")], before, strict=True):
        mean = (size - size_before) / (packets - packets_before)
        # One by one they have 1336 bytes.
        assert mean > 1.5 * 1336, (mean, packets, size)


def counted(gateway, way):
    """Packets and bytes at the private interface, as Linux counts them; a super-packet is one."""
    (link,) = json.loads(gateway.host.run("ip", "-j", "-s", "link", "show", "culvert0").stdout)
    return link["stats64"][way]["packets"], link["stats64"][way]["bytes"]
