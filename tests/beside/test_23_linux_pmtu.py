"""The cases of Linux's own selftest `pmtu.sh` that need ESP: what the kernel learns of path MTUs on VTIs. Their
policies have marks, so the kernel keeps the SAs; culvert on both gateways must not be in its way."""

import re
import socket
from dataclasses import dataclass

import pytest
from lab import topology as t
from lab.beside import is_fast, reason
from lab.traffic import ping
from lab.xfrm import algorithms, batch

pytestmark = pytest.mark.parametrize("plane", ["beside+beside"], indirect=True)

#: Addresses of the VTIs, A's and B's.
INNER = {4: ("10.8.0.1", "10.8.0.2"), 6: ("2001:db8:8::1", "2001:db8:8::2")}

#: Outer addresses, by topology and family.
OUTER = {
    "host2host": {4: (t.WAN_A4, t.WAN_B4), 6: (t.WAN_A6, t.WAN_B6)},
    "routers": {4: (t.FAR_A4, t.FAR_B4), 6: (t.FAR_A6, t.FAR_B6)},
}

SPIS = 0x1000, 0x1001

#: What ESP adds behind the outer header, with AES-GCM: SPI, number, IV, ICV, pad length, next header.
ESP = 4 + 4 + 8 + 16 + 1 + 1
IP = {4: 20, 6: 40}
UDP = ICMP = 8

#: linux/udp.h.
UDP_ENCAP, UDP_ENCAP_ESPINUDP = 100, 2


@dataclass
class Vti:
    """A VTI at either gateway, and the SAs and policies of its mark."""

    net: object
    family: int
    encap: bool = False

    def make(self):
        ends = OUTER[self.net.kind][self.family]
        self.sockets = []
        for gateway, (near, far) in zip(self.net.gateways(), (ends, ends[::-1])):
            host, name = gateway.host, f"vti{self.family}"
            kind = "vti" if self.family == 4 else "vti6"
            host.ip("link", "add", name, "type", kind, "local", near, "remote", far, "key", "10")
            inner = INNER[self.family][near == ends[1]]
            host.address(name, f"{inner}/{24 if self.family == 4 else 64}")
            host.ip("link", "set", name, "up")
            batch(host, *self.lines(near, far, ends))
            if self.encap:
                self.listen(host)
        return self

    def lines(self, near, far, ends):
        encap = "encap espinudp 4500 4500 0.0.0.0" if self.encap else ""
        for (src, dst), spi in zip((ends, ends[::-1]), SPIS):
            yield (
                f"xfrm state add src {src} dst {dst} spi {spi:#x} proto esp {algorithms('gcm', spi)} mode tunnel "
                f"replay-window 32 {encap}"
            )
        everything = "0.0.0.0/0" if self.family == 4 else "::/0"
        for direction, src, dst in (("out", near, far), ("in", far, near)):
            yield (
                f"xfrm policy add src {everything} dst {everything} dir {direction} mark 10 "
                f"tmpl src {src} dst {dst} proto esp mode tunnel"
            )

    def listen(self, host):
        """As an IKE daemon does: the kernel takes ESP in UDP where a socket says so."""
        sock = host.socket(socket.AF_INET if self.family == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
        sock.bind(("", 4500))
        sock.setsockopt(socket.IPPROTO_UDP, UDP_ENCAP, UDP_ENCAP_ESPINUDP)
        self.sockets.append(sock)

    def mtu(self, value, gateways=None):
        for gateway in gateways or self.net.gateways():
            set_mtu(gateway.host, f"vti{self.family}", value)

    def send(self, payload):
        """Pings A to B with so many bytes of payload, and returns the path MTU that A has then."""
        ping(self.net.gwa.host, INNER[self.family][1], size=payload, count=3, interval=0.1, wait=0.5)
        return self.learnt()

    def answered(self, payload):
        return ping(self.net.gwa.host, INNER[self.family][1], size=payload, count=2, wait=5)["received"] == 2

    def learnt(self):
        """What A has learnt of the path to B; None if nothing."""
        shown = self.net.gwa.host.ip("route", "get", INNER[self.family][1]).stdout
        match = re.search(r"\bmtu (?:lock )?(\d+)", shown)
        return int(match[1]) if match else None


def set_mtu(host, dev, value):
    host.ip("link", "set", "dev", dev, "mtu", value)


def begin(bed, kind, family, encap=False, **build):
    """The gateways with their VTIs, and with culvert, which leaves these to the kernel."""
    vti = Vti(bed.make(kind, build), family, encap).make()
    bed.start(taken=False)
    for gateway in bed.beside():
        for spi in SPIS:
            sa = bed.placement(gateway, spi)
            assert not is_fast(sa) and "mark" in reason(sa), sa
    return vti


#: Bare, and in UDP.
ENCAPS = pytest.mark.parametrize("encap", ["esp", "udp"])

#: Of the link.
MTU = 1500


@ENCAPS
def test_pmtu_vti4_exception(bed, encap):
    """pmtu_vti4_exception, pmtu_vti4_udp_exception: a packet that just fits makes no exception, one more byte makes
    one with the right MTU."""
    vti = begin(bed, "host2host", 4, encap == "udp")
    vti.mtu(MTU - IP[4])
    fits = MTU - IP[4] - ESP - (UDP if encap == "udp" else 0)
    payload = fits - IP[4] - ICMP
    assert vti.answered(payload)
    assert vti.learnt() is None
    assert vti.send(payload + 1) == fits


@ENCAPS
def test_pmtu_vti6_exception(bed, encap):
    """pmtu_vti6_exception, pmtu_vti6_udp_exception: packets beyond the link make an exception, which follows the
    VTI's own MTU down and up."""
    vti = begin(bed, "host2host", 6, encap == "udp", wan_mtu=3000)
    vti.mtu(4000)
    assert vti.send(60000), "no exception"
    for value in (2000, 6000):
        vti.mtu(value, [vti.net.gwa])
        assert vti.learnt() == value


@pytest.mark.parametrize("family", [4, 6])
def test_pmtu_vti_udp_routed_exception(bed, family):
    """pmtu_vti4_udp_routed_exception, pmtu_vti6_udp_routed_exception: what a router on the way says about ESP in UDP
    makes an exception with the right MTU."""
    vti = begin(bed, "routers", family, encap=True)
    if family == 4:
        vti.mtu(MTU - IP[4])
    fits = MTU - IP[family] - UDP - ESP
    payload = fits - IP[family] - ICMP
    assert vti.answered(payload)
    assert vti.learnt() is None
    set_mtu(vti.net.mid, "east", MTU - 8)
    assert vti.send(payload) == fits - 8
