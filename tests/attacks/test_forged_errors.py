"""ICMP errors that no router sent, and packets that pretend that a peer has moved."""

import struct

from lab import topology as t
from lab.attack import effort
from lab.base import wait_for
from lab.capture import Capture
from lab.inject import Injector, ether, fix_ipv4, ipv4_checksum
from lab.traffic import assert_ping, ping
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6PacketTooBig, IPv6
from scapy.packet import Raw

ETH, IPV4, UDP_HEADER = 14, 20, 8
COUNT = effort(1500, 20_000)


def outbound(gateway):
    return next(sa for sa in gateway.daemon.json("sa") if sa["inner_mtu"])


def test_path_mtus_and_other_errors(network, rng):
    """Attacker: anywhere; he knows addresses and SPI, has seen no packet, and sends "fragmentation needed" with guessed
    sequence numbers and every MTU, also as ESP in UDP, unreachable networks, hosts, ports and protocols, redirects, ends of
    time and parameter problems about the tunnel's packets.

    The path's MTU stays, SAs and route stay, and each ping is answered, long ones too.
    """
    net = network().up()
    assert_ping(net.client, t.SERVER4, count=3)
    before = outbound(net.gwa)
    spi = int(before["spi"], 16)
    states = sorted(sa["spi"] for sa in net.gwa.daemon.json("sa"))
    macs = net.gwb.host.mac("wan"), net.gwa.host.mac("wan")
    injector = Injector(net.mid, "west")
    kinds = [(3, 4), (3, 4), (3, 4), (3, 0), (3, 1), (3, 2), (3, 3), (3, 13), (5, 0), (5, 1), (11, 0), (11, 1), (12, 0)]
    head = bytes(IP(src=t.WAN_A4, dst=t.WAN_B4, proto=50, len=1500, flags="DF"))
    udp = bytes(IP(src=t.WAN_A4, dst=t.WAN_B4, proto=17, len=1500, flags="DF")) + bytes(UDP(sport=4500, dport=4500, len=1480))
    router = IP(src="192.0.2.254", dst=t.WAN_A4)
    templates = {kind: bytes(router / ICMP(type=kind[0], code=kind[1]) / Raw(b"")) for kind in kinds}
    frames = []
    for number in range(COUNT):
        kind = rng.choice(kinds)
        # What was not sent: three, and those that Linux asked for.
        sequence = rng.choice((0, 1000 + rng.randrange(1 << 20), 1 << rng.randrange(10, 32), 0xFFFFFFFF))
        quoted = rng.choice((head, head, udp)) + struct.pack("!II", spi if rng.random() < 0.9 else rng.getrandbits(32), sequence)
        quoted += bytes(rng.choice((0, 0, 8, 500)))
        icmp = bytearray(templates[kind][IPV4:] + quoted)
        struct.pack_into("!I", icmp, 4, rng.choice((0, 68, 256, 600, 1280, 1499)) if kind[0] == 3 else rng.getrandbits(32))
        struct.pack_into("!H", icmp, 2, 0)
        struct.pack_into("!H", icmp, 2, ipv4_checksum(bytes(icmp)))
        frames.append(fix_ipv4(ether(*macs, templates[kind][:IPV4] + bytes(icmp))))
    v6 = IPv6(src="2001:db8:f::fe", dst=t.WAN_A6)
    quoted6 = IPv6(src=t.WAN_A6, dst=t.WAN_B6, nh=50) / Raw(struct.pack("!II", spi, 77) + bytes(40))
    for mtu in (0, 68, 1279, 1280, 1400):
        frames += [ether(*macs, v6 / ICMPv6PacketTooBig(mtu=mtu) / quoted6), ether(*macs, v6 / ICMPv6DestUnreach() / quoted6)]
    for at in range(0, len(frames), 200):
        injector.send(*frames[at : at + 200])
        assert_ping(net.client, t.SERVER4, count=1)
    assert_ping(net.client, t.SERVER4, size=1400, count=5)
    after = outbound(net.gwa)
    same = ("spi", "path_mtu", "inner_mtu", "is_path_mtu_learnt")
    assert {key: after[key] for key in same} == {key: before[key] for key in same} and not after["is_path_mtu_learnt"]
    assert sorted(sa["spi"] for sa in net.gwa.daemon.json("sa")) == states
    # The forger is able: of somebody who has seen a packet it is believed, once the guesses are over.
    def report():
        assert_ping(net.client, t.SERVER4, count=1)
        about = Raw(head + struct.pack("!II", spi, outbound(net.gwa)["sent_seq"]) + bytes(20))
        injector.send(ether(*macs, router / ICMP(type=3, code=4, nexthopmtu=1280) / about))
        return outbound(net.gwa)["path_mtu"] == 1280

    wait_for("a report that is believed", report, step=0.5)


def moved(frame, rng, source=None, port=None):
    """The same packet of ESP in UDP from another place."""
    data = bytearray(frame)
    if source:
        data[ETH + 12 : ETH + 16] = bytes(map(int, source.split(".")))
    struct.pack_into("!H", data, ETH + IPV4, port or rng.randrange(1, 65536))
    struct.pack_into("!H", data, ETH + IPV4 + 6, 0)
    return fix_ipv4(bytes(data))


def test_moves_behind_a_nat(network, rng):
    """Attacker: on the wire, without keys. From other addresses and ports he sends packets of the peer's that were accepted
    before, changed ones, ESP of his own making, keepalives and IKE noise.

    No mapping changes: the SA's ends and ports stay, the owner hears nothing, answers go where they went, and the tunnel's
    pings are answered.
    """
    net = network(encap="yes").up()
    wire = Capture(net.mid, "west", f"udp and dst {t.WAN_B4}")
    assert_ping(net.client, t.SERVER4, count=20)
    seen = [f.data for f in wire.stop() if f.is_esp]
    daemon = net.gwb.daemon
    ends = lambda: sorted((sa["spi"], sa["src"], sa["dst"], tuple(sa["encap"])) for sa in daemon.json("sa"))  # noqa: E731
    before, log = ends(), len(daemon.log())
    has_moved = lambda: "MappingChanged" in daemon.log()[log:] or ends() != before  # noqa: E731
    injector = Injector(net.mid, "east")
    heard = Capture(net.mid, "east", f"src {t.WAN_B4} and not dst {t.WAN_A4} and not arp", snap=96)
    spi = seen[0][ETH + IPV4 + UDP_HEADER :][:4]
    for at in range(effort(4, 40)):
        frames = []
        for _ in range(128):
            source = rng.choice((None, "192.0.2.1", f"192.0.2.{rng.randrange(3, 250)}", "203.0.113.7"))
            frame = rng.choice(seen)
            kind = rng.randrange(5)
            if kind == 1:
                data = bytearray(frame)
                data[rng.randrange(ETH + IPV4 + UDP_HEADER + 4, len(data))] ^= 1 << rng.randrange(8)
                frame = bytes(data)
            elif kind == 2:
                body = spi + struct.pack("!I", rng.getrandbits(32)) + rng.randbytes(len(frame) - ETH - IPV4 - UDP_HEADER - 8)
                frame = frame[: ETH + IPV4 + UDP_HEADER] + body
            elif kind >= 3:
                body = b"\xff" if kind == 3 else bytes(4) + rng.randbytes(40)
                frame = frame[: ETH + IPV4] + struct.pack("!HHHH", 4500, 4500, 8 + len(body), 0) + body
            frames.append(moved(frame, rng, source, rng.choice((None, 4500, 4501))))
        injector.send(*frames)
        assert_ping(net.client, t.SERVER4, count=2)
    assert ends() == before
    assert not has_moved(), daemon.log()[log:]
    protected = [f for f in heard.stop() if f.is_esp]
    assert not protected, "; ".join(map(str, protected[:5]))
    children = net.gwb.swan.children("net")
    assert len(children) == 1, children
    # The forger is able: a packet that was not seen before says where its sender is (RFC 3948 section 3.3), even by one who
    # held it back.
    net.mid.ip("link", "set", "dev", "east", "nomaster")
    wire = Capture(net.mid, "west", f"udp and dst {t.WAN_B4}")
    ping(net.client, t.SERVER4, count=1)
    held = [f.data for f in wire.stop() if f.is_esp]
    assert not has_moved()
    injector.send(moved(held[0], rng, port=4501))
    wait_for("a move that is believed", has_moved)

