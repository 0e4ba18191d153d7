"""Forced UDP encapsulation (RFC 3948)."""

from lab import topology as t
from lab.capture import Capture, assert_only_protected, kinds, one_by_one
from lab.traffic import Stream, assert_perfect, assert_ping


def test_encapsulated(network):
    net = network(encap="yes").up()
    one_by_one(net.gwa.host, net.gwb.host)
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.client, t.SERVER6, count=10)
    stream = Stream(net.client, net.server, t.SERVER6, count=500, most=100)
    stream.wait()
    assert_perfect(stream.finish())
    frames = wire.stop()
    assert_only_protected(frames)
    seen = kinds(frames)
    assert "esp" not in seen and seen["esp-udp"] >= 40 + 1000, seen
    assert net.gwa.swan.children("net")[0]["encap"] == "yes"


def test_keepalives_are_swallowed(network, lab):
    """A NAT keepalive (one byte of 0xff) is no ESP and draws no answer."""
    from lab.inject import Injector, ether, fix_ipv4
    from scapy.layers.inet import IP, UDP

    net = network(encap="yes").up()
    assert_ping(net.client, t.SERVER4)
    wire = Capture(net.mid, "east", "icmp")
    injector = Injector(net.mid, "east")
    packet = IP(src=t.WAN_A4, dst=t.WAN_B4) / UDP(sport=4500, dport=4500) / b"\xff"
    frame = ether(net.gwa.host.mac("wan"), net.gwb.host.mac("wan"), packet)
    injector.send(*[fix_ipv4(frame)] * 20)
    assert_ping(net.client, t.SERVER4)
    assert wire.stop() == []
