"""Fragments: of ESP, made by a router on the way or by the gateway, and of what is to be protected."""

import socket
import struct
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, leaks
from lab.inject import Injector, ether
from lab.stream import SO_RCVBUFFORCE
from lab.traffic import assert_ping

PORT = 7777
IP_MTU_DISCOVER, PMTUDISC_DONT = 10, 0
#: Payloads that fit the gateway's own link once they are sealed, and not the routers'.
SIZES = [*range(1220, 1400, 20), 1400]


def udp(host, family=socket.AF_INET):
    sock = host.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PMTUDISC_DONT)
    return sock


def content(size):
    """A payload that shows where each of its bytes belongs."""
    return b"".join(struct.pack("!H", at) for at in range(0, size, 2))[:size]


def dropped(gateway):
    """What a gateway has dropped, by reason."""
    return {reason: n for reason, n in gateway.daemon.drops().items() if n}


def exchange(sender, to, receiver, sizes):
    """Sends a datagram of each size, and waits until all have arrived as they were."""
    with udp(sender) as out, udp(receiver) as sink:
        sink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        sink.bind(("", PORT))
        sink.setblocking(False)
        got = set()

        def arrived():
            while True:
                try:
                    data = sink.recv(65535)
                except BlockingIOError:
                    return got >= set(sizes)
                assert data == content(len(data)), f"{len(data)} bytes: content changed"
                assert len(data) not in got, f"{len(data)} bytes arrived twice"
                got.add(len(data))

        for size in sizes:
            out.sendto(content(size), (to, PORT))
            time.sleep(0.002)
        wait_for(f"all of {sizes}", arrived)


@pytest.mark.parametrize("encap", ["no", "yes"])
def test_a_router_cuts_esp(network, encap):
    """A router in the middle fragments what has no DF; the gateway behind it puts it together."""
    net = network(build={"narrow": 1280}, encap=encap, **t.FAR[4]).up()
    assert_ping(net.client, t.SERVER4)
    wire = Capture(net.mid, "east")
    exchange(net.client, t.SERVER4, net.server, SIZES)
    exchange(net.server, t.CLIENT4, net.client, SIZES)
    frames = wire.stop()
    assert not leaks(frames)
    assert sum(bool(frame.fragment) for frame in frames) >= 2 * len(SIZES), "nothing was cut"
    for gateway in net.gateways():
        assert dropped(gateway) == {}, gateway.host.name


def test_other_udp_of_a_gateway_in_fragments(network):
    """While an SA is in UDP its gateway looks at all fragments of UDP; a program gets its own."""
    net = network(build={"narrow": 1280}, encap="yes", **t.FAR[4]).up()
    assert_ping(net.client, t.SERVER4)
    exchange(net.mid, t.FAR_B4, net.gwb.host, [*SIZES, 3000, 8000, 20000])
    assert dropped(net.gwb) == {}
    # Later fragments before the first one.
    with udp(net.gwb.host) as sink:
        sink.bind(("", PORT))
        sink.settimeout(30)
        from scapy.layers.inet import IP, UDP, fragment

        whole = IP(src="192.168.3.2", dst=t.FAR_B4, id=77) / UDP(sport=5, dport=PORT) / content(2000)
        r3 = net.lab.hosts["r3"]
        injector = Injector(r3, "site")
        source, destination = r3.mac("site"), net.gwb.host.mac("wan")
        frames = [ether(source, destination, piece) for piece in fragment(whole, 800)]
        injector.send(*reversed(frames))
        assert sink.recv(65535) == content(2000)
    assert dropped(net.gwb) == {}


def test_a_flood_costs_others_nothing(network):
    """Fragments that never get complete, as fast as they can be made: pings and cut ESP go on."""
    net = network(build={"narrow": 1280}, **t.FAR[4]).up()
    assert_ping(net.client, t.SERVER4)
    from scapy.layers.inet import IP

    r3 = net.lab.hosts["r3"]
    injector = Injector(r3, "site")
    source, destination = r3.mac("site"), net.gwb.host.mac("wan")
    flood = [
        ether(
            source, destination,
            IP(src=f"192.0.2.{n % 250 + 1}", dst=t.FAR_B4, proto=50, id=n, flags="MF", frag=n % 7)
            / (b"\x07" * 64),
        )
        for n in range(5000)
    ]  # fmt: skip
    for turn in range(4):
        injector.send(*flood)
        # What does not fit the port's ring, as the machine is busy, is lost there, whatever it is.
        wait_for("the ring to be read", lambda: is_settled(net.gwb.daemon))
        assert_ping(net.client, t.SERVER4, count=5)
        exchange(net.client, t.SERVER4, net.server, [1300 + turn])
    drops = dropped(net.gwb)
    assert drops.get("fragment-limit", 0) > 5000, drops
    of_fragments = ("limit", "duplicate", "overlap", "timeout")
    assert set(drops) <= {f"fragment-{what}" for what in of_fragments}, drops


def is_settled(daemon):
    """Whether nothing comes any more."""
    before = daemon.stats()["received"]
    time.sleep(0.05)
    return daemon.stats()["received"] == before


@pytest.mark.parametrize("family", [4, 6])
def test_a_host_sends_fragments_in_transport_mode(network, family):
    """Programs of the gateways send more than a link holds: protected as one packet, then cut."""
    net = network(mode="transport", ts_a="dynamic", ts_b="dynamic", **t.FAR[family]).up()
    a, b = (t.FAR_A4, t.FAR_B4) if family == 4 else (t.FAR_A6, t.FAR_B6)
    wire = Capture(net.mid, "west")
    for size in (1600, 4000, 9000, 30000):
        assert_ping(net.gwa.host, b, size=size)
        assert_ping(net.gwb.host, a, size=size)
    frames = wire.stop()
    assert not leaks(frames, protected=())
    assert any(frame.fragment for frame in frames)
    for gateway in net.gateways():
        assert dropped(gateway) == {}, gateway.host.name
