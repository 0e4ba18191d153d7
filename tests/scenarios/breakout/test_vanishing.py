"""An uplink of its own port that goes and comes back: link, address, next hop, and the interface itself."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.branch import branch
from lab.capture import Capture
from lab.traffic import Stream, ping

from .test_breakout import CLOUD, CLOUD_NET, PASSES, PROBES, sources, stream_sources, taken

NEAR, FAR, OTHER = "203.0.114.1", "203.0.114.2", "203.0.114.7"

UPLINK = f"""
[nat]
learn = "conntrack"

[[port]]
interface = "dsl"

[[path]]
name = "dsl"
uplink = "dsl"
mark = 0x200
translated = true
@source@
to = "{FAR}"
mode = "icmp"
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

NAT = """
table ip nat {
  chain post {
    type nat hook postrouting priority srcnat
    oifname "dsl" ip saddr 10.1.0.0/24 masquerade
  }
}
"""


def plug(net):
    """The cable of the uplink, with its address and route."""
    near, far = net.gwa.host, net.gwb.host
    net.lab.link(near, "dsl", far, "dsl")
    far.address("dsl", f"{FAR}/24")
    far.sysctl("net.ipv4.conf.dsl.rp_filter", 2)
    dress(net)


def dress(net, address=NEAR):
    near = net.gwa.host
    near.address("dsl", f"{address}/24")
    near.sysctl("net.ipv4.conf.dsl.rp_filter", 2)
    near.ip("route", "replace", "default", "via", FAR, "dev", "dsl", "table", 102)


@pytest.fixture(name="site")
def fixture_site(network):
    wires = []

    def make(source=f'source = "{NEAR}"'):
        net = network()
        cloud = net.lab.host("cloud")
        far, near = net.gwb.host, net.gwa.host
        net.lab.link(cloud, "eth0", far, "net")
        cloud.address("eth0", f"{CLOUD}/24")
        far.address("net", "100.64.9.1/24")
        cloud.route("default", "via", "100.64.9.1")
        near.run("nft", "-f", "-", stdin=NAT)
        near.sysctl("net.ipv4.conf.all.rp_filter", 2)
        plug(net)
        wires.append(branch(net, path=PROBES, near=UPLINK.replace("@source@", source), near_connections=PASSES))
        near.ip("route", "replace", "default", "dev", "mpls")
        near.ip("rule", "add", "pref", "1000", "fwmark", "0x200/0xff00", "lookup", 102)
        wait_for("the uplink", lambda: taken(net) == ["dsl"], timeout=20)
        wait_for("good tunnels", lambda: {path["state"] for path in net.gwa.daemon.json("path")["paths"]} == {"good"})
        wait_for("rules of NAT", lambda: net.gwa.daemon.json("nat")["rules"][0])
        return net, cloud

    yield make
    for wire in wires:
        wire.close()


def clear_on_wan(wire):
    """Frames of the cloud on the other uplink, out of the tunnels."""
    frames = wire.stop()
    assert [frame for frame in frames if frame.is_esp], "nothing was captured"
    return [str(frame) for frame in frames if CLOUD in (str(frame.src), str(frame.dst))]


def index(net):
    return net.gwa.host.ip("-o", "link", "show", "dsl").stdout.split(":")[0]


def test_a_link_that_goes_down_and_comes_up(site):
    """Linux ends the connections that it masquerades there; they go on by the tunnel as new ones, and stay."""
    net, cloud = site()
    near, wire = net.gwa.host, Capture(net.mid, "west")
    stream = Stream(net.client, cloud, CLOUD, rate=100, port=7100)
    wait_for("the uplink's address", lambda: stream_sources(cloud, 7100) == {NEAR})
    near.ip("link", "set", "dsl", "down")
    wait_for("the tunnel", lambda: taken(net) == ["mpls"])
    assert sources(cloud, net.client, 7200) == {t.CLIENT4}
    wait_for("the old one in the tunnel", lambda: stream_sources(cloud, 7100) == {t.CLIENT4})
    near.ip("link", "set", "dsl", "up")
    near.ip("route", "replace", "default", "via", FAR, "dev", "dsl", "table", 102)
    wait_for("the uplink", lambda: taken(net) == ["dsl"], timeout=20)
    assert sources(cloud, net.client, 7300) == {NEAR}
    assert stream_sources(cloud, 7100) == {t.CLIENT4}, "a connection that is not translated stays"
    report = stream.finish()
    assert report["there"]["longest_gap"] < 100 and not report["there"]["duplicated"], report
    assert not clear_on_wan(wire)


def test_another_address_by_dhcp(site):
    """A path without a source follows its uplink's address."""
    net, cloud = site(source="")
    near, wire = net.gwa.host, Capture(net.mid, "west")
    stream = Stream(net.client, cloud, CLOUD, rate=100, port=7100)
    wait_for("the first address", lambda: stream_sources(cloud, 7100) == {NEAR})
    near.ip("address", "del", f"{NEAR}/24", "dev", "dsl")
    wait_for("the tunnel", lambda: taken(net) == ["mpls"])
    assert sources(cloud, net.client, 7200) == {t.CLIENT4}
    dress(net, OTHER)
    wait_for("the uplink", lambda: taken(net) == ["dsl"], timeout=20)
    (source,) = [path["source"] for path in net.gwa.daemon.json("path")["paths"] if path["name"] == "dsl"]
    assert source == OTHER
    assert sources(cloud, net.client, 7300) == {OTHER}
    assert stream_sources(cloud, 7100) == {t.CLIENT4}
    stream.finish()
    assert not clear_on_wan(wire)


def test_a_next_hop_that_goes_and_another_one(site):
    """Without a route of its mark nothing is sent another way; connections go on by another next hop as they were."""
    net, cloud = site()
    near, wire = net.gwa.host, Capture(net.mid, "west")
    stream = Stream(net.client, cloud, CLOUD, rate=100, port=7100)
    wait_for("the uplink's address", lambda: stream_sources(cloud, 7100) == {NEAR})
    before = net.gwa.daemon.drops().get("no-route", 0)
    near.ip("route", "del", "default", "table", 102)
    wait_for("drops", lambda: net.gwa.daemon.drops().get("no-route", 0) > before + 20)
    stopped = ping(net.client, CLOUD, count=5)
    assert stopped["received"] == 0 and stopped["errors"], stopped
    assert not stream_sources(cloud, 7100)
    net.gwb.host.address("dsl", "203.0.114.3/24")
    near.ip("route", "replace", "default", "via", "203.0.114.3", "dev", "dsl", "table", 102)
    wait_for("the other next hop", lambda: stream_sources(cloud, 7100) == {NEAR})
    assert sources(cloud, net.client, 7200) == {NEAR}
    stream.finish()
    assert not clear_on_wan(wire)


def test_an_interface_that_is_made_anew(site):
    """As a PPP session's is: another index, the same name."""
    net, cloud = site()
    near, wire, before = net.gwa.host, Capture(net.mid, "west"), index(net)
    stream = Stream(net.client, cloud, CLOUD, rate=100, port=7100)
    wait_for("the uplink's address", lambda: stream_sources(cloud, 7100) == {NEAR})
    near.ip("link", "del", "dsl")
    wait_for("the tunnel", lambda: taken(net) == ["mpls"])
    assert sources(cloud, net.client, 7200) == {t.CLIENT4}
    plug(net)
    assert index(net) != before
    wait_for("the uplink", lambda: taken(net) == ["dsl"], timeout=20)
    assert sources(cloud, net.client, 7300) == {NEAR}
    assert stream_sources(cloud, 7100) == {t.CLIENT4}
    stream.finish()
    assert not clear_on_wan(wire)
