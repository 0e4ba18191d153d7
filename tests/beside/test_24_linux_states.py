"""The cases of Linux's own selftest `xfrm_state.sh` about ICMP errors: of a router between the gateways about ESP, and
of a router or a gateway behind the tunnel about what came by it, which goes back by the tunnel too (`flag icmp`)."""

from dataclasses import dataclass

import pytest
from lab import topology as t
from lab.traffic import assert_ping, ping
from lab.xfrm import algorithms, batch

pytestmark = pytest.mark.parametrize("plane", ["beside+beside"], indirect=True)

FAMILIES = pytest.mark.parametrize("family", [4, 6])

OUTER = {4: (t.FAR_A4, t.FAR_B4), 6: (t.FAR_A6, t.FAR_B6)}
NEAR = {4: "10.1.0.0/24", 6: "2001:db8:1::/64"}
#: B's own site, and a network behind a router there.
SITE = {4: "10.2.0.0/24", 6: "2001:db8:2::/64"}
DEEP = {4: "10.3.0.0/24", 6: "2001:db8:3::/64"}

#: In these: a host of the site that answers and routes to the network behind it, a host there, and hosts that are not.
ROUTER = {4: t.SERVER4, 6: t.SERVER6}
DEEP_HOST = {4: "10.3.0.2", 6: "2001:db8:3::2"}
NOBODY_DEEP = {4: "10.3.0.3", 6: "2001:db8:3::3"}
NOBODY = {4: "10.2.0.99", 6: "2001:db8:2::99"}

#: The address of gateway A that its client sees.
TOWARDS_CLIENT = {4: t.LAN_A4, 6: t.LAN_A6}
#: That of gateway B at its site: from there the fast path says that nobody is; Linux says so from where it sends to.
AT_SITE = {4: t.LAN_B4, 6: t.LAN_B6}


@dataclass
class Sites:
    """Two sites with routers between their gateways, and one router more behind B."""

    bed: object
    family: int
    #: What the tunnel leads to, beside A's site.
    far: dict

    def make(self):
        net = self.net = self.bed.make("routers")
        deep = net.lab.host("deep")
        net.lab.link(net.server, "eth1", deep, "eth0")
        net.server.address("eth1", "10.3.0.1/24", "2001:db8:3::1/64")
        deep.address("eth0", "10.3.0.2/24", "2001:db8:3::2/64")
        deep.route("default", "via", "10.3.0.1")
        deep.route("default", "via", "2001:db8:3::1")
        net.server.sysctl("net.ipv4.ip_forward", 1)
        net.server.sysctl("net.ipv6.conf.all.forwarding", 1)
        net.gwb.host.route(DEEP[4], "via", t.SERVER4)
        net.gwb.host.route(DEEP[6], "via", t.SERVER6)
        for gateway, at_a in ((net.gwb, False), (net.gwa, True)):
            batch(gateway.host, *self.lines(at_a))
        # What is said about the tunnel's packets must come by the tunnel.
        net.mid.run("nft", "-f", "-", stdin=_NO_ECHO)
        self.bed.wire.iv_len_bytes = 8
        return self

    def lines(self, at_a):
        (a, b), near, far = OUTER[self.family], NEAR[self.family], self.far[self.family]
        for src, dst, spi, reqid, inner in ((a, b, 0x1000, 1, (near, far)), (b, a, 0x1001, 2, (far, near))):
            is_in = (spi == 0x1001) == at_a
            flags = "flag icmp replay-window 32" if is_in else "replay-window 0"
            yield (
                f"xfrm state add src {src} dst {dst} proto esp spi {spi:#x} reqid {reqid} mode tunnel {flags} "
                f"{algorithms('gcm', spi)} sel src {inner[0]} dst {inner[1]}"
            )
            icmp = "flag icmp" if reqid == 2 else ""
            yield (
                f"xfrm policy add src {inner[0]} dst {inner[1]} dir {'fwd' if is_in else 'out'} {icmp} "
                f"tmpl src {src} dst {dst} proto esp reqid {reqid} mode tunnel"
            )

    def told(self, to, by, code, **how):
        """Whether the client, pinging an address, is told by one of others that it cannot be."""
        words = [f"from {address}: {code}" for address in by]
        result = ping(self.net.client, to[self.family], count=4, interval=0.5, wait=6, **how)
        assert result["received"] == 0, result["text"]
        return any(word in error for error in result["errors"] for word in words), result["text"]


_NO_ECHO = """
table inet filter {
  chain forward {
    type filter hook forward priority filter
    icmp type { echo-request, destination-unreachable } drop
    icmpv6 type { echo-request, destination-unreachable, packet-too-big } drop
  }
}
"""

#: By family: nobody is there, and the packet is too big.
UNREACHABLE = {4: "destination unreachable, code 1", 6: "destination unreachable, code 3"}
TOO_BIG = {4: "destination unreachable, code 4", 6: "packet too big, code 0"}


def with_and_without(bed, act):
    """Something with the kernel alone, and with culvert."""
    act()
    bed.start()
    act()


@FAMILIES
def test_unreachable(bed, family):
    """unreachable_ipv4, unreachable_ipv6: a router behind the tunnel says that a host is not there, and
    the client hears it by the tunnel."""
    sites = Sites(bed, family, DEEP).make()

    def act():
        assert_ping(sites.net.client, DEEP_HOST[family], count=2)
        was_told, text = sites.told(NOBODY_DEEP, [ROUTER[family]], UNREACHABLE[family])
        assert was_told, text

    with_and_without(bed, act)


@FAMILIES
def test_unreachable_gateway(bed, family):
    """unreachable_gw_ipv4, unreachable_gw_ipv6: the gateway at the tunnel's end says that a host is not there, and
    the client hears it by the tunnel."""
    sites = Sites(bed, family, SITE).make()

    # Linux 6.12 alone says so from the address that nobody has, if that is IPv4.
    by = [OUTER[family][1], AT_SITE[family], NOBODY[family]]

    def act():
        assert_ping(sites.net.client, ROUTER[family], count=2)
        was_told, text = sites.told(NOBODY, by, UNREACHABLE[family])
        assert was_told, text
        by[:] = [AT_SITE[family]]

    with_and_without(bed, act)


def too_big(bed, family, narrow, reporters):
    """A router's link is narrower than the path's: the client is told that a packet is too big."""
    sites = Sites(bed, family, DEEP).make()
    client = sites.net.client
    assert_ping(client, DEEP_HOST[family], count=2)
    host, dev = narrow(sites.net)
    host.ip("link", "set", "dev", dev, "mtu", 1300)

    def act():
        client.ip("route", "flush", "cache")
        client.ip("-6", "route", "flush", "cache")
        was_told, text = sites.told(DEEP_HOST, [reporters[family]], TOO_BIG[family], size=1300, df=True)
        assert was_told, text

    with_and_without(bed, act)
    return client


@FAMILIES
def test_mtu_of_a_router_behind(bed, family):
    """mtu_ipv4_r3, mtu_ipv6_r3: a router behind the tunnel says that a packet is too big, and the client hears it
    by the tunnel."""
    too_big(bed, family, lambda net: (net.server, "eth1"), ROUTER)


@FAMILIES
def test_mtu_of_a_router_between(bed, family):
    """mtu_ipv4_r2, mtu_ipv6_r2: a router between the gateways says that ESP is too big, and the near gateway tells the
    client what fits."""
    client = too_big(bed, family, lambda net: (net.mid, "east"), TOWARDS_CLIENT)
    assert_ping(client, DEEP_HOST[family], count=2, size=1150)
