"""Cloud breakout: some applications leave a branch in clear by an uplink, and everything else by the tunnel to the head office."""

import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.branch import branch, impaired
from lab.capture import Capture, assert_only_protected
from lab.masquerade import carries
from lab.traffic import Stream, assert_perfect, assert_ping, ping

#: Beyond the far gateway, which forwards to it what comes in clear and what comes by a tunnel.
CLOUD, CLOUD_NET = "100.64.9.10", "100.64.9.0/24"
#: The uplinks' addresses here, and those of the far gateway there.
DIRECT, MOBILE = ("203.0.113.1", "203.0.113.2"), ("198.18.3.1", "198.18.3.2")

PROBES = "interval_ms = 50\nmisses = 5\nwindow = 40\ntimeout_ms = 500\nhold_s = 1"

UPLINKS = f"""
[nat]
learn = "conntrack"

[[path]]
name = "direct"
uplink = "wan"
mark = 0x200
translated = true
source = "{DIRECT[0]}"
to = "{DIRECT[1]}"
mode = "icmp"
{PROBES}

[[path]]
name = "mobile-direct"
uplink = "wan"
mark = 0x300
translated = true
source = "{MOBILE[0]}"
to = "{MOBILE[1]}"
mode = "icmp"
{PROBES}

[applications]
enabled = true

[[application]]
name = "cloud"
prefixes = ["{CLOUD_NET}"]
"""

RULES = """
[[steer]]
name = "breakout"
application = "cloud"
paths = ["direct", "mobile-direct", "mpls"]
return_after_s = 2
"""

#: What the branch may send in clear at all: policies without protection, which strongSwan calls passthrough.
PASSES = f"""
  breakout {{
    children {{
      cloud {{
        local_ts = 10.1.0.0/24
        remote_ts = {CLOUD_NET}
        mode = pass
        start_action = trap
      }}
    }}
  }}
"""

NAT = """
table ip nat {
  chain post {
    type nat hook postrouting priority srcnat
    oifname "wan" ip saddr 10.1.0.0/24 masquerade
  }
}
"""


@pytest.fixture(name="site")
def fixture_site(network):
    """Makes the branch and a cloud; the network, its cloud, and the impaired wire."""
    wires = []

    def make(passes=PASSES, rules=RULES):
        net = network()
        cloud = net.lab.host("cloud")
        far, near = net.gwb.host, net.gwa.host
        net.lab.link(cloud, "eth0", far, "net")
        cloud.address("eth0", f"{CLOUD}/24")
        far.address("net", "100.64.9.1/24")
        cloud.route("default", "via", "100.64.9.1")
        near.run("nft", "-f", "-", stdin=NAT)
        for dev in ("all", "wan"):
            near.sysctl(f"net.ipv4.conf.{dev}.rp_filter", 2)
        wire = branch(net, path=PROBES, near=UPLINKS + rules, near_connections=passes)
        wires.append(wire)
        # Everything goes to the head office, unless a rule says otherwise.
        near.ip("route", "replace", "default", "dev", "mpls")
        for mark, table, via in (("0x200", 102, DIRECT[1]), ("0x300", 103, MOBILE[1])):
            near.ip("route", "add", "default", "via", via, "dev", "wan", "table", table)
            near.ip("rule", "add", "pref", "1000", "fwmark", f"{mark}/0xff00", "lookup", table)
        wait_for("measured paths", lambda: states(net) == {"good"})
        wait_for("rules of NAT", lambda: net.gwa.daemon.json("nat")["rules"][0])
        return net, cloud, wire

    yield make
    for wire in wires:
        wire.close()


def is_of_uplinks(frame):
    """Whether a frame is a probe of an uplink, or on its way to the cloud with an uplink's address or back."""
    ends = {str(frame.src), str(frame.dst)}
    return ends in ({*DIRECT}, {*MOBILE}) and frame.protocol == 1 or ends in ({CLOUD, DIRECT[0]}, {CLOUD, MOBILE[0]})


def states(net):
    return {path["state"] for path in net.gwa.daemon.json("path")["paths"]}


def taken(net):
    rows = {row["rule"]: row["paths"] for row in net.gwa.daemon.json("steer")}
    return [path["name"] for path in rows["breakout"] if path["weight"]]


def sources(cloud, client, port):
    """From where the cloud sees a stream of the client's come."""
    seen = Capture(cloud, "eth0", f"udp port {port}")
    stream = Stream(client, cloud, CLOUD, rate=100, count=60, port=port)
    stream.wait()
    assert_perfect(stream.finish())
    return {str(frame.src) for frame in seen.stop()} - {CLOUD}


def test_an_application_leaves_in_clear_and_the_rest_by_the_tunnel(site):
    net, cloud, _ = site()
    wire = Capture(net.mid, "west")
    assert taken(net) == ["direct"]
    with carries(net, 90):
        assert sources(cloud, net.client, 7000) == {DIRECT[0]}
    assert_ping(net.client, CLOUD, count=5)
    assert_ping(net.client, t.SERVER4, count=5)
    frames = wire.stop()
    assert_only_protected([frame for frame in frames if not is_of_uplinks(frame)], protected=t.PROTECTED)
    to_cloud = [frame for frame in frames if str(frame.dst) == CLOUD]
    assert to_cloud and {str(frame.src) for frame in to_cloud} == {DIRECT[0]}
    assert not net.gwa.daemon.drops().get("steer-cleartext"), net.gwa.daemon.drops()


def test_nothing_leaves_in_clear_that_no_policy_lets_pass(site):
    net, cloud, _ = site(passes="")
    wire = Capture(net.mid, "west")
    seen = Capture(cloud, "eth0")
    stopped = ping(net.client, CLOUD, count=5)
    assert stopped["received"] == 0 and stopped["errors"], stopped
    stream = Stream(net.client, cloud, CLOUD, rate=100, count=50)
    stream.wait()
    stream.finish()
    assert_ping(net.client, t.SERVER4, count=3)
    frames = wire.stop()
    assert not [frame for frame in frames if CLOUD in (str(frame.src), str(frame.dst))], "in clear"
    assert_only_protected([frame for frame in frames if not is_of_uplinks(frame)], protected=(*t.PROTECTED, CLOUD_NET))
    assert not [frame for frame in seen.stop() if str(frame.dst) == CLOUD], "packets in the cloud"
    drops = net.gwa.daemon.drops()
    assert drops["steer-cleartext"] >= 55, drops
    why = net.gwa.daemon.culvert("why", "--from", t.CLIENT4, "--to", CLOUD, "--in", "lan").stdout
    assert "steer-cleartext" in why and "mode = pass" in why, why


def test_a_connection_keeps_its_uplink_and_new_ones_take_the_next(site):
    net, cloud, wire = site()
    stream = Stream(net.client, cloud, CLOUD, rate=100, port=7100)
    time.sleep(1)
    wire.set(*impaired(internet={"cut": True}))
    wait_for("the next uplink", lambda: taken(net) == ["mobile-direct"])
    seen = Capture(cloud, "eth0", "udp port 7100")
    assert sources(cloud, net.client, 7200) == {MOBILE[0]}
    # The old one is where it was, and its packets are lost there.
    assert not seen.stop()
    wire.set()
    wait_for("the first uplink", lambda: taken(net) == ["direct"])
    before = len(stream_sources(cloud, 7100))
    assert before
    assert stream_sources(cloud, 7100) == {DIRECT[0]}
    stream.finish()
    # Where both are dead the tunnel takes what is new, untranslated.
    wire.set(*impaired(internet={"cut": True}, lte={"cut": True}))
    wait_for("the tunnel", lambda: taken(net) == ["mpls"])
    assert sources(cloud, net.client, 7300) == {t.CLIENT4}


def stream_sources(cloud, port):
    """From where packets to a port come in the cloud at present."""
    seen = Capture(cloud, "eth0", f"udp port {port}")
    time.sleep(0.5)
    return {str(frame.src) for frame in seen.stop()} - {CLOUD}
