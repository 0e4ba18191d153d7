"""Breakout over IPv6: untranslated, masqueraded, and by prefix; a next hop on the link alone, and router advertisements."""

import socket

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.branch import branch
from lab.capture import Capture
from lab.traffic import Stream, assert_perfect, ping

from .test_breakout import PROBES, states, taken

CLOUD, CLOUD_NET = "2001:db8:c::10", "2001:db8:c::/64"
NEAR, FAR = "2001:db8:d::1", "2001:db8:d::2"
#: Prefix by which NPTv6 has the LAN known outside.
OUTSIDE = "2001:db8:d1::/64"

PASSES = f"""
  breakout {{
    children {{
      cloud {{
        local_ts = 2001:db8:1::/64
        remote_ts = {CLOUD_NET}
        mode = pass
        start_action = trap
      }}
    }}
  }}
"""

NAT = {
    "masquerade": 'oifname "dsl" ip6 saddr 2001:db8:1::/64 masquerade',
    "prefix": f'oifname "dsl" snat ip6 prefix to ip6 saddr map {{ 2001:db8:1::/64 : {OUTSIDE} }}',
}


TABLE = """
table ip6 nat {{
  chain post {{
    type nat hook postrouting priority srcnat
    {rule}
  }}
}}
"""


def config(to=FAR, more="", source=f'source = "{NEAR}"\n', guard=""):
    return guard + f"""
[nat]
learn = "conntrack"

[[port]]
interface = "dsl"

[[path]]
name = "dsl"
uplink = "dsl"
mark = 0x200
{source}to = "{to}"
mode = "icmp"
{more}
{PROBES}

[applications]
enabled = true

[[application]]
name = "cloud"
prefixes = ["{CLOUD_NET}"]

[[steer]]
name = "breakout"
application = "cloud"
paths = ["dsl", "mpls"]
return_after_s = 1
"""


def link_local(host, dev):
    def found():
        words = host.ip("-6", "address", "show", "dev", dev, "scope", "link").stdout.split()
        return words[words.index("inet6") + 1].split("/")[0] if "inet6" in words and "tentative" not in words else None

    return wait_for("a link-local address", found)


@pytest.fixture(name="site")
def fixture_site(network):
    wires = []

    def make(nat=None, **how):
        net = network()
        cloud = net.lab.host("cloud")
        far, near = net.gwb.host, net.gwa.host
        net.lab.link(cloud, "eth0", far, "net")
        cloud.address("eth0", f"{CLOUD}/64")
        far.address("net", "2001:db8:c::1/64")
        cloud.route("default", "via", "2001:db8:c::1")
        net.lab.link(near, "dsl", far, "dsl")
        near.address("dsl", f"{NEAR}/64")
        far.address("dsl", f"{FAR}/64")
        for link in (near, far):
            link_local(link, "dsl")
        if nat:
            near.run("nft", "-f", "-", stdin=TABLE.format(rule=NAT[nat]))
        how["to"] = how.get("to", lambda _: FAR)(net)
        if nat:
            how["more"] = "translated = true\n" + how.get("more", "")
        wires.append(branch(net, path=PROBES, near=config(**how), near_connections=PASSES, ts="0.0.0.0/0,::/0"))
        near.ip("-6", "route", "replace", "default", "dev", "mpls")
        far.ip("-6", "route", "replace", "2001:db8:1::/64", "dev", "mpls")
        near.ip("-6", "route", "replace", "2001:db8:2::/64", "dev", "mpls")
        near.ip("-6", "route", "add", "default", "via", link_local(far, "dsl"), "dev", "dsl", "table", 102)
        near.ip("-6", "rule", "add", "pref", "1000", "fwmark", "0x200/0xff00", "lookup", 102)
        far.ip("-6", "route", "add", OUTSIDE, "via", NEAR, "dev", "dsl")
        wait_for("measured paths", lambda: states(net) == {"good"}, timeout=30)
        wait_for("the uplink", lambda: taken(net) == ["dsl"])
        return net, cloud

    yield make
    for wire in wires:
        wire.close()


def by_uplink(net, cloud):
    """Whence a stream comes to the cloud, and whether nearly all of its packets were seen on the uplink: a capture may miss some, and a busy
    machine may make a path bad for a moment."""
    seen, link = Capture(cloud, "eth0", "udp"), Capture(net.gwb.host, "dsl", "udp")
    stream = Stream(net.client, cloud, CLOUD, rate=100, count=60)
    stream.wait()
    assert_perfect(stream.finish())
    sources = {str(frame.src) for frame in seen.stop()} - {CLOUD}
    return sources, len([frame for frame in link.stop() if str(frame.dst) == CLOUD]) > 45


@pytest.mark.parametrize("nat", [None, "masquerade", "prefix"])
def test_an_application_leaves_in_clear(site, nat):
    """By a next hop that is on the link alone, from the LAN's addresses, the uplink's, or those of a prefix."""
    net, cloud = site(nat, more=f'translated_to = ["{OUTSIDE}"]\n' if nat == "prefix" else "")
    wire = Capture(net.mid, "west")
    wanted = {None: t.CLIENT6, "masquerade": NEAR, "prefix": "2001:db8:d1::10"}
    assert by_uplink(net, cloud) == ({wanted[nat]}, True)
    if nat:
        assert net.gwa.daemon.json("stats")["work"]["translated"] >= 50
    assert not [str(frame) for frame in wire.stop() if CLOUD in (str(frame.src), str(frame.dst))]


def test_a_next_hop_on_the_link_is_measured(site):
    """Its address is on other links as well."""
    net, cloud = site(to=lambda net: link_local(net.gwb.host, "dsl"), source="")
    (path,) = [path for path in net.gwa.daemon.json("path")["paths"] if path["name"] == "dsl"]
    assert path["source"] == link_local(net.gwa.host, "dsl") and path["refused"] == {}, path
    assert by_uplink(net, cloud) == ({t.CLIENT6}, True)


def advertise(host, dev):
    """A router advertisement with a high preference (RFC 4191)."""
    from scapy.layers.inet6 import ICMPv6ND_RA, ICMPv6NDOptSrcLLAddr, IPv6
    from scapy.layers.l2 import Ether

    mac = host.mac(dev)
    frame = Ether(src=mac, dst="33:33:00:00:00:01") / IPv6(src=link_local(host, dev), dst="ff02::1", hlim=255)
    frame /= ICMPv6ND_RA(routerlifetime=1800, prf=1) / ICMPv6NDOptSrcLLAddr(lladdr=mac)
    with host.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        with host.entered():
            sock.bind((dev, 0))
        sock.send(bytes(frame))


def test_an_advertised_default_route_takes_nothing_out_of_the_tunnel(site):
    """What the guard names stays there, whatever routes a router on the uplink advertises; and the doctor tells of it."""
    net, cloud = site(guard='[guard]\nprefixes = ["2001:db8:2::/64"]\n')
    near = net.gwa.host
    near.sysctl("net.ipv6.conf.dsl.accept_ra", 2)
    advertise(net.gwb.host, "dsl")
    defaults = lambda: near.ip("-6", "route", "show", "default").stdout  # noqa: E731
    wait_for("a default route", lambda: "proto ra" in defaults())
    # The tunnel is no longer where the routes lead.
    near.ip("-6", "route", "del", "2001:db8:2::/64", "dev", "mpls")
    near.ip("-6", "route", "del", "default", "dev", "mpls")
    wires = [Capture(net.mid, "west"), Capture(net.gwb.host, "dsl")]
    assert ping(net.client, t.SERVER6, count=5)["received"] == 0
    assert by_uplink(net, cloud) == ({t.CLIENT6}, True), "what a policy lets pass goes on"
    frames = [frame for wire in wires for frame in wire.stop()]
    assert frames and not [str(frame) for frame in frames if t.SERVER6 in (str(frame.src), str(frame.dst))]
    told = net.gwa.daemon.culvert("doctor", "--config", net.gwa.daemon.config, check=False).stdout
    assert "accept_ra" in told and "net.ipv6.conf.dsl.accept_ra_defrtr=0" in told, told
