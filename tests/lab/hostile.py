"""Frames that nobody should send: one of each kind, to be changed further."""

import struct

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption
from scapy.layers.inet6 import (
    ICMPv6EchoRequest, ICMPv6PacketTooBig, ICMPv6TimeExceeded, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, IPv6ExtHdrSegmentRouting, Jumbo, PadN, RouterAlert,
)  # fmt: skip
from scapy.layers.l2 import ARP, GRE
from scapy.packet import Raw

from . import topology as t
from .inject import ether

#: An attacker's own addresses on the wire.
ATTACKER4, ATTACKER6 = "192.0.2.6", "2001:db8:f::6"


def esp(spi, number=0xFFFFFFF0, length=96):
    """ESP without a valid ICV."""
    return struct.pack("!II", spi, number) + bytes(range(length % 256)) + bytes(length - length % 256)


def ah(spi, number=7):
    """AH around ICMP, without a valid ICV."""
    return struct.pack("!BBHII", 1, 4, 0, spi, number) + bytes(12) + bytes(ICMP())


def ip4(proto, body, src=t.WAN_A4, dst=t.WAN_B4, **fields):
    return IP(src=src, dst=dst, proto=proto, **fields) / Raw(body)


def ip6(next_header, body, src=t.WAN_A6, dst=t.WAN_B6, **fields):
    return IPv6(src=src, dst=dst, nh=next_header, **fields) / Raw(body)


def to_the_gateway(spi):
    """What an outsider sends to gateway B: around IPsec, and around IP."""
    quoted = IP(src=t.WAN_B4, dst=t.WAN_A4, proto=50, flags="DF") / Raw(esp(spi, 1, 24))
    quoted6 = IPv6(src=t.WAN_B6, dst=t.WAN_A6, nh=50) / Raw(esp(spi, 1, 24))
    natt = UDP(sport=4500, dport=4500)
    v4, v6 = {"src": ATTACKER4, "dst": t.WAN_B4}, {"src": ATTACKER6, "dst": t.WAN_B6}
    chain = IPv6(**v6)
    for _ in range(30):
        chain = chain / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0\0\0\0")])
    return [
        ip4(50, esp(spi)), ip4(50, esp(spi, 0)), ip4(50, esp(0)), ip4(50, esp(spi, 9, 0)), ip4(50, b"\0" * 7), ip4(50, b""),
        ip4(50, esp(spi, length=1400)), ip6(50, esp(spi)), ip6(50, b"\1" * 5), ip4(51, ah(spi)), ip6(51, ah(spi)),
        ip4(51, ah(spi)[:11]), ip4(108, b"\x01\0\0\x02" + b"x" * 60), ip6(108, b"\x04\0\xff\xff" + b"\xff" * 60),
        IP(src=t.WAN_A4, dst=t.WAN_B4) / natt / Raw(esp(spi)), IP(src=t.WAN_A4, dst=t.WAN_B4) / natt / Raw(b"\xff"),
        IP(src=t.WAN_A4, dst=t.WAN_B4) / natt / Raw(b"\0\0\0\0" + b"ike" * 20),
        IP(src=t.WAN_A4, dst=t.WAN_B4) / natt / Raw(esp(spi)[:7]),
        IP(src=t.WAN_A4, dst=t.WAN_B4) / UDP(sport=4500, dport=4500, len=7) / Raw(esp(spi)),
        IPv6(src=t.WAN_A6, dst=t.WAN_B6) / natt / Raw(esp(spi)),
        # Fragments: of ESP, tiny, overlapping, beyond 64 KiB, the last without a first.
        ip4(50, esp(spi)[:48], id=7, flags="MF"), ip4(50, esp(spi)[48:], id=7, frag=6), ip4(50, esp(spi)[40:], id=7, frag=5),
        ip4(50, esp(spi)[:8], id=8, flags="MF"), ip4(50, b"x" * 400, id=9, frag=8180), ip4(17, b"x" * 8, id=10, frag=1),
        IPv6(src=t.WAN_A6, dst=t.WAN_B6) / IPv6ExtHdrFragment(id=7, m=1, nh=50) / Raw(esp(spi)[:48]),
        IPv6(src=t.WAN_A6, dst=t.WAN_B6) / IPv6ExtHdrFragment(id=7, offset=5, nh=50) / Raw(esp(spi)[40:]),
        IPv6(src=t.WAN_A6, dst=t.WAN_B6) / IPv6ExtHdrFragment(id=8, nh=50) / Raw(esp(spi)),
        IPv6(src=t.WAN_A6, dst=t.WAN_B6) / IPv6ExtHdrFragment(id=9, m=1, nh=50) / Raw(b"x" * 13),
        # ICMP errors about ESP, and about nothing.
        IP(**v4) / ICMP(type=3, code=4, nexthopmtu=68) / quoted, IP(**v4) / ICMP(type=3, code=3) / quoted,
        IP(**v4) / ICMP(type=5, code=1, gw=ATTACKER4) / quoted, IP(**v4) / ICMP(type=11) / Raw(bytes(quoted)[:20]),
        IP(**v4) / ICMP(type=12) / Raw(bytes(quoted)[:9]), IP(**v4) / ICMP(type=3, code=4) / Raw(b""),
        IPv6(**v6) / ICMPv6PacketTooBig(mtu=0) / quoted6, IPv6(**v6) / ICMPv6TimeExceeded() / Raw(bytes(quoted6)[:41]),
        # Options and extension headers.
        IP(**v4, options=[IPOption(b"\x07\x07\x04\0\0\0\0")]) / ICMP(), IP(**v4, options=[IPOption(b"\x83\x07\x04\x0a\x02\x00\x0a")]) / ICMP(),
        IP(**v4, options=[IPOption(b"\x94\x04\0\0")]) / Raw(b"x"), IP(**v4, ttl=0) / ICMP(), IP(**v4, ihl=15) / ICMP(),
        IPv6(**v6) / IPv6ExtHdrHopByHop(options=[RouterAlert()]) / ICMPv6EchoRequest(),
        IPv6(**v6) / IPv6ExtHdrHopByHop(options=[Jumbo(jumboplen=70000)]) / ICMPv6EchoRequest(),
        IPv6(**v6) / IPv6ExtHdrRouting(type=0, segleft=1, addresses=["2001:db8:2::10"]) / ICMPv6EchoRequest(),
        IPv6(**v6) / IPv6ExtHdrSegmentRouting(addresses=["2001:db8:2::10", t.WAN_B6], segleft=1) / ICMPv6EchoRequest(),
        IPv6(**v6) / IPv6ExtHdrSegmentRouting(addresses=[t.WAN_B6] * 2, segleft=200) / ICMPv6EchoRequest(),
        IPv6(**v6, nh=59) / Raw(b"x" * 40), IPv6(**v6, hlim=0) / ICMPv6EchoRequest(), chain / ICMPv6EchoRequest(),
        # Tunnels of other kinds, to the gateway and through it.
        IP(**v4) / GRE() / IP(src=t.CLIENT4, dst=t.SERVER4) / ICMP(), IP(**v4) / IP(src=t.CLIENT4, dst=t.SERVER4) / ICMP(),
        IP(**v4) / IPv6(src=t.CLIENT6, dst=t.SERVER6) / ICMPv6EchoRequest(),
        IP(**v4) / UDP(sport=2152, dport=2152) / Raw(b"\x34\xff\0\x10\0\0\x10\0\0\0\0\x85\x01\x10\0\0" + b"E" * 40),
        IP(**v4) / UDP(sport=1, dport=4789) / Raw(b"\x08\0\0\0\0\0\1\0" + b"e" * 60),
        # In clear, what a policy protects.
        IP(src=t.CLIENT4, dst=t.SERVER4) / UDP(sport=5, dport=7000) / Raw(b"in clear"),
        IP(src=t.CLIENT4, dst=t.SERVER4, flags="MF", id=11) / UDP(sport=5, dport=7000) / Raw(b"in clear, and cut in two"),
        IP(src=t.CLIENT4, dst=t.SERVER4) / TCP(sport=5, dport=80, flags="S", dataofs=15, options=[("MSS", 9)]),
        IP(src=t.CLIENT4, dst=t.SERVER4, options=[IPOption(b"\x83\x07\x04\x0a\x02\x00\x0a")]) / ICMP(),
        IP(src=t.CLIENT4, dst=t.LAN_B4) / ICMP(), IPv6(src=t.CLIENT6, dst=t.SERVER6) / ICMPv6EchoRequest(),
        IPv6(src=t.CLIENT6, dst=t.SERVER6) / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0")]) / ICMPv6EchoRequest(),
        IPv6(src=t.CLIENT6, dst=t.SERVER6) / IPv6ExtHdrFragment(id=3, m=1) / UDP(sport=5, dport=7000) / Raw(b"x" * 24),
        IP(src=t.SERVER4, dst=t.SERVER4) / ICMP(), IP(src=t.WAN_B4, dst=t.WAN_B4) / ICMP(), IP(src="127.0.0.1", dst=t.SERVER4) / ICMP(),
        IP(src="255.255.255.255", dst=t.SERVER4) / ICMP(), IP(src=t.CLIENT4, dst="224.0.0.5") / Raw(b"x"),
    ]  # fmt: skip


def from_the_site(client4=t.SERVER4, client6=t.SERVER6, far4=t.CLIENT4, far6=t.CLIENT6):
    """What a host of a site sends towards the other one: all of it is to be protected, or dropped."""
    v4, v6 = {"src": client4, "dst": far4}, {"src": client6, "dst": far6}
    return [
        IP(**v4) / UDP(sport=5, dport=9) / Raw(b"x" * 30), IP(**v4, flags="DF") / UDP(sport=5, dport=9) / Raw(b"x" * 1470),
        IP(**v4) / TCP(sport=5, dport=9, flags="S", dataofs=15, options=[("MSS", 0)]), IP(**v4, ttl=1) / ICMP(),
        IP(**v4, options=[IPOption(b"\x83\x07\x04\x0a\x02\x00\x0a")]) / ICMP(), IP(**v4, frag=8180) / Raw(b"x" * 400),
        IP(**v4, flags="MF", id=3) / UDP(sport=5, dport=9) / Raw(b"x" * 48), IP(**v4, frag=7, id=3) / Raw(b"x" * 9),
        IP(**v4, proto=50) / Raw(esp(5)), IP(**v4, proto=4) / IP(**v4) / ICMP(), IP(**v4, tos=255) / ICMP(),
        IP(**v4) / UDP(sport=500, dport=500) / Raw(b"ike"), IP(**v4) / UDP(sport=4500, dport=4500) / Raw(esp(5)),
        IPv6(**v6) / UDP(sport=5, dport=9) / Raw(b"x" * 30), IPv6(**v6) / UDP(sport=5, dport=9, chksum=0) / Raw(b"x"),
        IPv6(**v6) / IPv6ExtHdrHopByHop(options=[RouterAlert()]) / ICMPv6EchoRequest(),
        IPv6(**v6) / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0")]) / UDP(sport=5, dport=9),
        IPv6(**v6) / IPv6ExtHdrRouting(type=0, segleft=1, addresses=[far6]) / UDP(sport=5, dport=9),
        IPv6(**v6) / IPv6ExtHdrSegmentRouting(addresses=[far6, "2001:db8:9::1"], segleft=1) / UDP(sport=5, dport=9),
        IPv6(**v6) / IPv6ExtHdrFragment(id=3, m=1, nh=17) / Raw(b"x" * 48), IPv6(**v6) / IPv6ExtHdrFragment(id=3, offset=6) / Raw(b"x" * 9),
        IPv6(**v6, hlim=1) / ICMPv6EchoRequest(), IPv6(**v6, nh=59) / Raw(b"x"), IPv6(**v6, nh=50) / Raw(esp(5)),
    ]  # fmt: skip


def tagged(frame, *tags):
    """The frame with VLAN tags: pairs of a type and a control field."""
    return frame[:12] + b"".join(struct.pack("!HH", *tag) for tag in tags) + frame[12:]


def frames(packets, src_mac, dst_mac):
    """Frames around the packets, and some that are wrong from Ethernet on."""
    whole = [ether(src_mac, dst_mac, packet) for packet in packets]
    first = whole[0]
    head = first[:12]
    arp = bytes(ARP(op=2, psrc=ATTACKER4, hwsrc=src_mac, pdst=ATTACKER4, hwdst="ff:ff:ff:ff:ff:ff"))
    return [
        *whole,
        tagged(first, (0x8100, 0)), tagged(first, (0x8100, 4095)), tagged(first, (0x88A8, 7), (0x8100, 100)),
        tagged(first, (0x8100, 1), (0x8100, 2), (0x8100, 3)), tagged(first, (0x9100, 5)), first[:14] + b"", first[:15],
        head + b"\x81\x00\x00", head + struct.pack("!H", 40) + first[14:54], head + b"\x08\x06" + arp, head + b"\x08\x06" + arp[:9],
        head + b"\x86\xdd" + first[14:], head + b"\x08\x00" + b"\x60" + first[15:], head + b"\x88\x47\0\0\x11\x40" + first[14:],
        b"\xff" * 6 + first[6:], b"\x01\x00\x5e\0\0\5" + first[6:], b"\x02\0\0\0\0\x99" + first[6:],
    ]  # fmt: skip
