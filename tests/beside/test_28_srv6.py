"""L3VPNs by SRv6 with VRFs (RFC 8986 §4.6 to §4.8): culvert at gateway A and Linux at gateway B, whose routes one routing
daemon or `ip` has made. culvert has the databases of IPsec itself here: there are no SAs."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.frr import Frr, has
from lab.traffic import assert_ping

VRF, TABLE = "red", 100

#: What each gateway decapsulates with, by what `encap seg6` of the other one names.
WAYS = {
    "End.DT46": {4: ("46", "End.DT46"), 6: ("46", "End.DT46")},
    "End.DT4, End.DT6": {4: ("d4", "End.DT4"), 6: ("d6", "End.DT6")},
}


def sid(side, number):
    return f"fc00:{side}::{number}"


def add_vrf(gateway, side):
    """The VRF, with the gateway's site in it, and the way to the other one's segments."""
    host = gateway.host
    host.run("sysctl", "-qw", "net.vrf.strict_mode=1")
    host.ip("link", "add", VRF, "type", "vrf", "table", TABLE)
    host.ip("link", "set", VRF, "up")
    host.ip("link", "set", "lan", "master", VRF)
    # A host's own IPv6 addresses go as an interface changes its master.
    host.ip("addr", "replace", f"{(t.LAN_A6, t.LAN_B6)[side - 1]}/64", "dev", "lan", "nodad")
    far_wan = (t.WAN_B6, t.WAN_A6)[side - 1]
    host.ip("-6", "route", "add", f"fc00:{3 - side}::/48", "via", far_wan)
    # Nothing but the VRF's routes leads to the other site.
    host.ip("route", "del", f"10.{3 - side}.0.0/24")
    host.ip("-6", "route", "del", f"2001:db8:{3 - side}::/64")


def add_routes(gateway, side, way):
    """Segments of this side, and a route in the VRF by those of the other."""
    host, other = gateway.host, 3 - side
    for family, far in ((4, f"10.{other}.0.0/24"), (6, f"2001:db8:{other}::/64")):
        number, action = way[family]
        local = ("encap", "seg6local", "action", action, "vrftable", TABLE)
        host.ip("-6", "route", "replace", f"{sid(side, number)}/128", *local, "dev", VRF)
        segments = ("encap", "seg6", "mode", "encap", "segs", sid(other, number))
        host.ip(f"-{family}", "route", "replace", far, "vrf", VRF, *segments, "dev", "wan")


def make(bed):
    """Two gateways with a VRF each."""
    net = bed.make()
    bed.is_judged = False
    add_vrf(net.gwa, 1)
    add_vrf(net.gwb, 2)
    net.gwa.host.ip("sr", "tunsrc", "set", sid(1, "ff"))
    net.gwa.host.ip("addr", "add", f"{sid(1, 'ff')}/128", "dev", "lo")
    if net.gwa.daemon:
        net.gwa.daemon.source = ""
        net.gwa.daemon.settings = '[srv6]\ndomain = ["wan"]\n'
        net.gwa.daemon.write_config()
    return net


def talk_of_linux(net):
    """Without culvert."""
    for near, to in ((net.client, t.SERVER4), (net.server, t.CLIENT6)):
        assert_ping(near, to, count=3)


def talk(net):
    """Both families, both ways; with culvert its fast path has all of it at gateway A."""
    daemon = net.gwa.daemon
    names = ("srv6-encapsulated", "srv6-decapsulated")
    before = [daemon.stats()["work"][name] for name in names] if daemon else []
    for near, to in ((net.client, t.SERVER4), (net.client, t.SERVER6), (net.server, t.CLIENT4), (net.server, t.CLIENT6)):
        assert_ping(near, to, count=5)
    if daemon:
        work = daemon.stats()["work"]
        moved = [work[name] - was for name, was in zip(names, before)]
        assert all(count >= 20 for count in moved), (moved, daemon.culvert("route").stdout, daemon.stats())


@pytest.mark.parametrize("way", WAYS)
def test_vrftable(bed, way):
    """An L3VPN of VRF devices goes by the fast path at one gateway and by Linux at the other: routes with segments in the
    VRF's table, and segments with its `vrftable`."""
    net = make(bed)
    add_routes(net.gwa, 1, WAYS[way])
    add_routes(net.gwb, 2, WAYS[way])
    talk_of_linux(net)
    if net.gwa.daemon:
        net.gwa.daemon.start()
        talk(net)
        shown = net.gwa.daemon.culvert("route").stdout
        assert f"{WAYS[way][4][1]} table {TABLE}" in shown, shown
        # As `ip sr tunsrc` has it.
        assert f"src {sid(1, 'ff')}" in shown, shown
        # The gateway's own address in the VRF is Linux's.
        assert_ping(net.client, t.LAN_A4, count=2)
        net.gwa.daemon.stop()
        talk_of_linux(net)


ZEBRA = """
segment-routing
 srv6
  locators
   locator site
    prefix fc00:{side}:0:1::/64
"""

#: BGP tells VPN prefixes with segments (RFC 9252). What FRR 8.4 gives each family is End.DT4 and End.DT6.
BGPD = """
hostname {name}
log stdout
router bgp 6500{side}
 bgp router-id 10.{side}.0.1
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 neighbor {far} remote-as 6500{other}
 neighbor {far} timers 1 3
 neighbor {far} timers connect 1
 neighbor {far} capability extended-nexthop
 address-family ipv4 vpn
  neighbor {far} activate
 exit-address-family
 address-family ipv6 vpn
  neighbor {far} activate
 exit-address-family
 segment-routing srv6
  locator site
router bgp 6500{side} vrf red
 bgp router-id 10.{side}.0.1
 no bgp ebgp-requires-policy
 address-family ipv4 unicast
  redistribute connected
  sid vpn export auto
  rd vpn export 6500{side}:4
  rt vpn both 99:99
  import vpn
  export vpn
 exit-address-family
 address-family ipv6 unicast
  redistribute connected
  sid vpn export auto
  rd vpn export 6500{side}:6
  rt vpn both 99:99
  import vpn
  export vpn
 exit-address-family
"""


@pytest.mark.skipif(not has("bgpd"), reason="frr is not installed")
def test_a_routing_daemon(bed):
    """A routing daemon, FRR, tells VPN prefixes with segments by BGP, and the fast path follows what it installs and takes
    away."""
    net = make(bed)
    if net.gwa.daemon:
        net.gwa.daemon.start()
    speakers = []
    for gateway, side, far in ((net.gwa, 1, t.WAN_B6), (net.gwb, 2, t.WAN_A6)):
        values = {"name": gateway.host.name, "side": side, "other": 3 - side, "far": far}
        speakers.append(Frr(gateway.host, "bgpd", BGPD.format(**values), zebra=ZEBRA.format(**values)))

    def has_all(host, other):
        shown = host.ip("route", "show", "vrf", VRF).stdout + host.ip("-6", "route", "show", "vrf", VRF).stdout
        return all(f"{far}" in shown for far in (f"10.{other}.0.0/24", f"2001:db8:{other}::/64")) and "seg6" in shown

    wait_for("routes at A", lambda: has_all(net.gwa.host, 2), timeout=20)
    wait_for("routes at B", lambda: has_all(net.gwb.host, 1), timeout=20)
    talk(net)
    # The other one is silent: its prefixes go.
    speakers[1].stop()
    wait_for("the loss", lambda: not has_all(net.gwa.host, 2), timeout=20)
    speakers[0].stop()
