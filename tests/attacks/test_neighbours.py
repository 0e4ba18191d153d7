"""Lies of ARP and neighbour discovery, by whose answers frames find their stations."""

import socket
import struct

import pytest
from lab import topology as t
from lab.attack import IS_SAMPLE, Health, effort
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.inject import Injector, ether, scapy_sa, xfrm_states
from lab.traffic import assert_ping, first_answer, ping
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_Redirect, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP

EVIL = "02:00:00:00:00:66"
MIB = 1 << 20


def arp(address, mac, asked=None, op=2):
    """An ARP frame that says that an address is at a station."""
    body = bytes(ARP(op=op, psrc=address, hwsrc=mac, pdst=asked or address, hwdst="ff:ff:ff:ff:ff:ff"))
    return b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) + struct.pack("!H", 0x0806) + body


def advertisement(address, mac, to, to_mac, source=None):
    """A neighbour advertisement that says so too."""
    na = ICMPv6ND_NA(tgt=address, R=1, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=mac)
    return ether(mac, to_mac, IPv6(src=source or address, dst=to, hlim=255) / na)


def neighbours(host, dev):
    """What a host knows by an interface: addresses and stations."""
    words = [line.split() for line in host.ip("neigh", "show", "dev", dev).stdout.splitlines()]
    return {w[0]: w[w.index("lladdr") + 1] for w in words if "lladdr" in w}


def test_from_the_wrong_side(network):
    """Attackers: a host of site B, which says by ARP and neighbour discovery at gateway B's LAN that the peer and its router are
    there; and a peer with keys, who sends advertisements, redirects and ARP's like through the tunnel, with a hop limit of
    255 as if from the next cable.

    Neighbours at the interfaces that they are not about stay, the tunnel's pings are answered, and no route changes.
    """
    net = network().up()
    assert_ping(net.client, t.SERVER4, count=3)
    assert_ping(net.client, t.SERVER6, count=3)
    gwb = net.gwb.host
    stations = {dev: neighbours(gwb, dev) for dev in ("wan", "lan")}
    routes = gwb.ip("route").stdout, gwb.ip("-6", "route").stdout
    assert stations["wan"][t.WAN_A4] == net.gwa.host.mac("wan") and stations["lan"][t.SERVER6]
    lan = Injector(net.server, "eth0")
    for _ in range(effort(5, 50)):
        lan.send(arp(t.WAN_A4, EVIL), arp(t.WAN_A4, EVIL, t.LAN_B4), arp(t.WAN_A4, EVIL, t.LAN_B4, op=1), arp(t.WAN_B4, EVIL))
        lan.send(*(advertisement(t.WAN_A6, EVIL, to, gwb.mac("lan")) for to in (t.LAN_B6, "ff02::1")))
        assert_ping(net.client, t.SERVER4, count=2)
    # The peer's: inside of ESP with the right keys.
    state = next(s for s in xfrm_states(net.gwb.daemon.exec("ip", "xfrm", "state").stdout) if s.dst == t.WAN_B4)
    wire, number = Injector(net.mid, "east"), 10_000
    lies = [
        IPv6(src=t.CLIENT6, dst=to, hlim=255) / body
        for to in (t.LAN_B6, t.SERVER6)
        for body in (
            ICMPv6ND_NA(tgt=t.SERVER6, R=1, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=EVIL),
            ICMPv6ND_NA(tgt=t.WAN_A6, R=1, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=EVIL),
            ICMPv6ND_Redirect(tgt=t.CLIENT6, dst=t.SERVER6) / ICMPv6NDOptDstLLAddr(lladdr=EVIL),
        )
    ]
    passed = net.gwb.daemon.stats()["work"]["decrypted"]
    for lie in lies:
        number += 1
        wire.send(ether(net.gwa.host.mac("wan"), gwb.mac("wan"), scapy_sa(state).encrypt(lie, seq_num=number)))
    wait_for("the lies to be decrypted", lambda: net.gwb.daemon.stats()["work"]["decrypted"] >= passed + len(lies))
    for dev, known in stations.items():
        now = neighbours(gwb, dev)
        changed = {a: (mac, now[a]) for a, mac in known.items() if a in now and now[a] != mac}
        assert not changed, (dev, changed)
    assert (gwb.ip("route").stdout, gwb.ip("-6", "route").stdout) == routes


def test_on_the_same_wire(network):
    """Attacker: on the wire between the gateways, which has no protection of its own: by ARP and advertisements he becomes the
    station of gateway A. He gets ESP, as he would from Linux, and traffic ends while he goes on.

    Nothing leaves in clear, to any station; a neighbour that is written down for good is not moved; when he stops,
    the tunnel goes on by itself.
    """
    net = network().up()
    gwb = net.gwb.host
    assert_ping(net.client, t.SERVER4, count=3)
    wire = Capture(net.mid, "east", snap=256)
    injector = Injector(net.mid, "east")
    lies = [arp(t.WAN_A4, EVIL), arp(t.WAN_A4, EVIL, t.WAN_B4), advertisement(t.WAN_A6, EVIL, t.WAN_B6, gwb.mac("wan"))]
    # Written down for good.
    true = net.gwa.host.mac("wan")
    gwb.ip("neigh", "replace", t.WAN_A4, "lladdr", true, "dev", "wan", "nud", "permanent")
    for _ in range(10):
        injector.send(*lies)
        assert_ping(net.client, t.SERVER4, count=2)
    gwb.ip("neigh", "replace", t.WAN_A4, "lladdr", true, "dev", "wan", "nud", "stale")

    def has_fallen():
        injector.send(*lies)
        return neighbours(gwb, "wan").get(t.WAN_A4) == EVIL

    wait_for("the lie to be believed", has_fallen)
    for _ in range(effort(3, 20)):
        injector.send(*lies)
        ping(net.server, t.CLIENT4, count=3, wait=0.1)
    evil = bytes.fromhex(EVIL.replace(":", ""))
    first_answer(net.server, t.CLIENT4)
    frames = wire.stop()
    assert any(f.is_esp and f.data[:6] == evil for f in frames), "the attack was none"
    own = bytes.fromhex(gwb.mac("wan").replace(":", ""))
    assert_only_protected([f for f in frames if f.data[6:12] == own])


# Linux's table of neighbours is one for all namespaces: who fills it disturbs other labs.
@pytest.mark.skipif(IS_SAMPLE, reason="not in the sample: make attacks")
def test_a_scan(network, rng):
    """Attacker: a host behind the peer, who sends to tens of thousands of addresses of site B's /64, so that gateway B looks for
    each of them.

    Those who talk through the gateway go on: each ping is answered; the daemon holds a bounded number of packets; a host that
    comes up afterwards is found.
    """
    net = network().up()
    assert_ping(net.client, t.SERVER4, count=3)
    assert_ping(net.client, t.SERVER6, count=3)
    health = Health(net.gwb.daemon)
    mac, to_mac = net.client.mac("eth0"), net.gwa.host.mac("lan")
    injector = Injector(net.client, "eth0")
    lost, sent = [], 0
    for _ in range(400):
        frames = []
        for _ in range(100):
            to = f"2001:db8:2:0:{rng.getrandbits(16):x}:{rng.getrandbits(16):x}:{rng.getrandbits(16):x}:{rng.getrandbits(16):x}"
            frames.append(_udp6(mac, to_mac, to))
        injector.send(*frames)
        sent += len(frames)
        for to in (t.SERVER4, t.SERVER6):
            result = ping(net.client, to, count=1, wait=10)
            lost += [] if result["received"] else [(sent, to)]
    assert not lost, f"{len(lost)} of 800: {lost[:10]}; {net.gwb.daemon.drops()}"
    net.server.address("eth0", "2001:db8:2::77/64")
    first_answer(net.client, "2001:db8:2::77")
    health.check(32 * MIB)


def _udp6(mac, to_mac, to):
    ends = b"".join(socket.inet_pton(socket.AF_INET6, address) for address in (t.CLIENT6, to))
    head = struct.pack("!IHBB", 0x60000000, 12, 17, 64) + ends
    return ether(mac, to_mac, head + struct.pack("!HHHH", 5, 9, 12, 0x1234) + b"scan")
