"""The cases of Linux's own selftests of SRv6 by their names (`srv6_*_test.sh`), in a row of routers of which gateway A is
culvert's and all others are Linux's. What that decapsulates, wraps and passes on its fast path does, by Linux's routes.

    client, tenant -- gwa -- r1 -- mid -- r3 -- gwb -- server, far tenant
    segments:        fcff:1::  fcff:4::  fcff:3::  fcff:2::
"""

import pytest
from lab import topology as t
from lab.traffic import assert_ping, ping

#: The table of segments, which a rule leads to, as in all of the selftests.
SEGMENTS = 90
#: Compressed segments (RFC 9800 §4.1): a block of 32 bits, and 16 of node and function.
NEXT_CSID = ("flavors", "next-csid", "lblen", 32, "nflen", 16)

#: Both tenants have the same networks. What only tenant 200 has answers to nobody of tenant 100.
TENANTS = {100: ("lan", "red"), 200: ("lan2", "blue")}
ONLY_200 = {4: "10.2.0.200", 6: "2001:db8:2::200"}
SITES = {4: "10.{}.0.0/24", 6: "2001:db8:{}::/64"}


class Mesh:
    """The routers, with ways to each other's segments and a plain End each."""

    def __init__(self, bed):
        net = self.net = bed.make("routers")
        bed.is_judged = False
        a, b = net.gwa.host, net.gwb.host
        r1, mid, r3 = (net.lab.hosts[name] for name in ("r1", "mid", "r3"))
        self.routers = {1: a, 2: b, 3: r3, 4: r1}
        ways = {
            r1: {"fcff:1::/32": t.FAR_A6, "fcbb:0:100::/48": t.FAR_A6},
            mid: {
                "fcff:1::/32": "2001:db8:c1::1", "fcff:4::/32": "2001:db8:c1::1", "fcff:2::/32": "2001:db8:c3::3",
                "fcff:3::/32": "2001:db8:c3::3", "fcbb:0:100::/48": "2001:db8:c1::1", "fcbb:0:400::/48": "2001:db8:c1::1",
                "fcbb:0:200::/48": "2001:db8:c3::3", "fcbb:0:300::/48": "2001:db8:c3::3",
            },
            r3: {"fcff:2::/32": t.FAR_B6, "fcbb:0:200::/48": t.FAR_B6},
        }  # fmt: skip
        for host, routes in ways.items():
            for prefix, via in routes.items():
                host.ip("-6", "route", "add", prefix, "via", via)
        #: An interface of each that its segments name.
        self.devs = {1: "wan", 2: "wan", 3: "core", 4: "core"}
        for number, host in self.routers.items():
            for block in ("fcff::/16", "fcbb::/32"):
                host.ip("-6", "rule", "add", "to", block, "lookup", SEGMENTS, "prio", 999)
            self.segment(number, f"fcff:{number}::e", "End")
        for host, side in ((a, 1), (b, 2)):
            host.ip("sr", "tunsrc", "set", (t.FAR_A6, t.FAR_B6)[side - 1])
            # Nothing but segments leads to the other site.
            for family in SITES:
                host.ip(f"-{family}", "route", "add", "blackhole", SITES[family].format(3 - side), "metric", 9999)
        if net.gwa.daemon:
            net.gwa.daemon.source = ""
            net.gwa.daemon.settings = '[srv6]\ndomain = ["wan"]\n'
            net.gwa.daemon.write_config()

    def segment(self, number, sid, action, *how, dev=None):
        """A segment of a router, in its table of segments; without a length it is one address."""
        local = ("encap", "seg6local", "action", action, *how, "dev", dev or self.devs[number])
        self.routers[number].ip("-6", "route", "add", sid, "table", SEGMENTS, *local)

    def policy(self, number, prefix, mode, *segments, vrf=None):
        """What a gateway has packets to a prefix go by."""
        family = 6 if ":" in prefix else 4
        table = ("vrf", vrf) if vrf else ()
        encap = ("encap", "seg6", "mode", mode, "segs", ",".join(segments))
        self.routers[number].ip(f"-{family}", "route", "add", prefix, *table, *encap, "dev", "wan")

    def sites(self, mode, there, back, families=(4, 6)):
        """Policies between both sites: lists of segments to B and to A."""
        for family in families:
            self.policy(1, SITES[family].format(2), mode, *there)
            self.policy(2, SITES[family].format(1), mode, *back)

    def start(self):
        if self.net.gwa.daemon:
            self.net.gwa.daemon.start()

    def talk(self, families=(4, 6), moved=("srv6-encapsulated", "srv6-decapsulated")):
        """Both ways; with culvert its fast path has all of it at gateway A."""
        net, daemon = self.net, self.net.gwa.daemon
        before = [daemon.stats()["work"][name] for name in moved] if daemon else []
        pairs = {4: (t.SERVER4, t.CLIENT4), 6: (t.SERVER6, t.CLIENT6)}
        for family in families:
            assert_ping(net.client, pairs[family][0], count=5)
            assert_ping(net.server, pairs[family][1], count=5)
        if daemon:
            work = daemon.stats()["work"]
            counts = [work[name] - was for name, was in zip(moved, before)]
            assert all(count >= 10 * len(families) for count in counts), (moved, counts, daemon.culvert("route").stdout)


@pytest.fixture
def mesh(bed):
    return Mesh(bed)


def add_tenants(mesh):
    """A VRF for each tenant at both gateways. Tenant 200 has a host at each site, with the addresses of tenant 100's and
    one more."""
    net = mesh.net
    for gateway, side in ((net.gwa, 1), (net.gwb, 2)):
        host = gateway.host
        host.run("sysctl", "-qw", "net.vrf.strict_mode=1")
        tenant = net.lab.host(f"tenant{side}")
        net.lab.link(tenant, "eth0", host, "lan2")
        lan4, lan6 = ((t.LAN_A4, t.LAN_A6), (t.LAN_B4, t.LAN_B6))[side - 1]
        for table, (dev, vrf) in TENANTS.items():
            host.ip("link", "add", vrf, "type", "vrf", "table", table)
            host.ip("link", "set", vrf, "up")
            host.ip("link", "set", dev, "master", vrf)
            # A host's own IPv6 addresses go as an interface changes its master.
            host.ip("addr", "replace", f"{lan4}/24", "dev", dev)
            host.ip("addr", "replace", f"{lan6}/64", "dev", dev, "nodad")
        own = ((t.CLIENT4, t.CLIENT6), (t.SERVER4, t.SERVER6))[side - 1]
        tenant.address("eth0", f"{own[0]}/24", f"{own[1]}/64")
        if side == 2:
            tenant.address("eth0", f"{ONLY_200[4]}/24", f"{ONLY_200[6]}/64")
        tenant.route("default", "via", lan4)
        tenant.route("default", "via", lan6)
    if net.gwa.daemon:
        net.gwa.ports.append("lan2")
        net.gwa.daemon.write_config()


#: Each selftest's segments: of which family, and the action.
L3VPNS = {
    "srv6_end_dt4_l3vpn_test": {4: "End.DT4"},
    "srv6_end_dt6_l3vpn_test": {6: "End.DT6"},
    "srv6_end_dt46_l3vpn_test": {4: "End.DT46", 6: "End.DT46"},
}


@pytest.mark.parametrize("selftest", L3VPNS)
def test_l3vpn(mesh, selftest):
    """Tenants with the same addresses at two sites reach their own hosts and gateways, and nobody of the other one."""
    net, actions = mesh.net, L3VPNS[selftest]
    add_tenants(mesh)
    for side in (1, 2):
        for table, (_, vrf) in TENANTS.items():
            for number, action in enumerate(sorted(set(actions.values()))):
                mesh.segment(side, f"fcff:{side}::{table}:{number}", action, "vrftable", table, dev=vrf)
            for family in actions:
                far = SITES[family].format(3 - side)
                mesh.policy(side, far, "encap", f"fcff:{3 - side}::{table}:0", vrf=vrf)
    mesh.start()
    mesh.talk(actions)
    tenant = net.lab.hosts["tenant1"]
    for family in actions:
        assert_ping(tenant, {4: t.SERVER4, 6: t.SERVER6}[family], count=3)
        assert_ping(net.lab.hosts["tenant2"], {4: t.CLIENT4, 6: t.CLIENT6}[family], count=3)
        # The gateway's own addresses of each tenant.
        assert_ping(net.client, {4: t.LAN_A4, 6: t.LAN_A6}[family], count=2)
        assert_ping(tenant, {4: t.LAN_A4, 6: t.LAN_A6}[family], count=2)
        assert_ping(tenant, ONLY_200[family], count=3)
        assert ping(net.client, ONLY_200[family], count=2)["received"] == 0


def test_srv6_end_flavors_test(mesh):
    """The last segment but one takes the header away (PSP): routers of Linux's, and culvert for itself."""
    for number in mesh.routers:
        mesh.segment(number, f"fcff:{number}::ef1", "End", "flavors", "psp")
    for side, dst4, dst6 in ((1, t.CLIENT4, t.CLIENT6), (2, t.SERVER4, t.SERVER6)):
        mesh.segment(side, f"fcff:{side}::d4", "End.DX4", "nh4", dst4, dev="lan")
        mesh.segment(side, f"fcff:{side}::d6", "End.DX6", "nh6", dst6, dev="lan")
    for family in (4, 6):
        there = ("fcff:4::e", "fcff:3::ef1", f"fcff:2::d{family}")
        back = ("fcff:3::e", "fcff:1::ef1", f"fcff:1::d{family}")
        mesh.sites("encap", there, back, families=(family,))
    mesh.start()
    mesh.talk(moved=("srv6-encapsulated", "srv6-steps", "srv6-decapsulated"))


def compressed(mesh, action, *how):
    """Segments as both selftests of NEXT-CSID have them: a container alone for IPv6, and one with a segment behind for
    IPv4."""
    for number in mesh.routers:
        via = how and how[number - 1]
        mesh.segment(number, f"fcbb:0:{number}00::/48", action, *(via or ()), *NEXT_CSID)
    for side in (1, 2):
        mesh.segment(side, f"fcbb:0:{side}00:d46::/64", "End.DT46", "vrftable", 100, dev="red")
        mesh.segment(side, f"fcff:{side}::d46", "End.DT46", "vrftable", 100, dev="red")
        other = 3 - side
        mesh.policy(side, SITES[6].format(other), "encap.red", *_CONTAINERS[side], vrf="red")
        mesh.policy(side, SITES[4].format(other), "encap.red", *_LISTS[side], vrf="red")


#: To B by r1 and r3; to A by r3 and then A's own segment.
_CONTAINERS = {1: ("fcbb:0:400:300:200:d46::",), 2: ("fcbb:0:300:100:100:d46::",)}
_LISTS = {1: ("fcbb:0:400:300::", "fcff:2::d46"), 2: ("fcbb:0:300:100::", "fcff:1::d46")}
CSIDS = {
    "srv6_end_next_csid_l3vpn_test": ("End",),
    # Their next hops, which send on by their routes: r1 back to A, and the one in the middle back to r3.
    "srv6_end_x_next_csid_l3vpn_test": (
        "End.X",
        ("nh6", "2001:db8:a::254"),
        ("nh6", "2001:db8:b::254"),
        ("nh6", "2001:db8:c3::2"),
        ("nh6", "2001:db8:c1::2"),
    ),
}


@pytest.mark.parametrize("selftest", CSIDS)
def test_next_csid(mesh, selftest):
    """Compressed segments of Linux's routers and of culvert (RFC 9800 §4.1), in one container and with a list behind."""
    action, *how = CSIDS[selftest]
    add_tenants(mesh)
    compressed(mesh, action, *how)
    mesh.start()
    mesh.talk(moved=("srv6-encapsulated", "srv6-steps", "srv6-decapsulated"))


def test_srv6_hencap_red_l3vpn_test(mesh):
    """Reduced headers of one segment, which need no list, and of several."""
    add_tenants(mesh)
    for side in (1, 2):
        mesh.segment(side, f"fcff:{side}::d46", "End.DT46", "vrftable", 100, dev="red")
    for family, there, back in (
        (6, ("fcff:3::e", "fcff:4::e", "fcff:2::d46"), ("fcff:1::d46",)),
        (4, ("fcff:2::d46",), ("fcff:4::e", "fcff:3::e", "fcff:1::e", "fcff:1::d46")),
    ):
        mesh.policy(1, SITES[family].format(2), "encap.red", *there, vrf="red")
        mesh.policy(2, SITES[family].format(1), "encap.red", *back, vrf="red")
    mesh.start()
    mesh.talk()


def test_srv6_hl2encap_red_l2vpn_test(mesh):
    """Two hosts in one network, whose frames go through segments as they are."""
    net = mesh.net
    macs = {1: "00:00:00:c0:01:01", 2: "00:00:00:c0:01:02"}
    hosts = {1: (net.client, {4: t.CLIENT4, 6: t.CLIENT6}), 2: (net.server, {4: t.SERVER4, 6: t.SERVER6})}
    for side, (host, _) in hosts.items():
        other = 3 - side
        gateway = mesh.routers[side]
        # The gateway answers for the other host's link address, as Linux would drop frames for others.
        for where, dev, mac in ((host, "eth0", macs[side]), (gateway, "lan", macs[other])):
            where.ip("link", "set", "dev", dev, "address", mac)
        for addr in hosts[other][1].values():
            host.ip("route", "replace", addr, "dev", "eth0")
            host.ip("neigh", "replace", addr, "lladdr", macs[other], "dev", "eth0")
        mesh.segment(side, f"fcff:{side}::d2", "End.DX2", "oif", "lan", dev="lan")
    for family in (4, 6):
        mesh.policy(1, hosts[2][1][family], "l2encap.red", "fcff:2::d2")
        mesh.policy(2, hosts[1][1][family], "l2encap.red", "fcff:4::e", "fcff:3::e", "fcff:1::d2")
    mesh.start()
    mesh.talk()
