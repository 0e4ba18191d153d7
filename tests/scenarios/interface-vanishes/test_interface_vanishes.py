"""The LAN or the WAN side goes away under traffic, and comes back."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import Stream, assert_ping, ping


def test_lan_side(network, lab):
    net = network().up()
    stream = Stream(net.client, net.server, t.SERVER4, rate=200)
    net.gwb.host.ip("link", "del", "dev", "lan")
    wait_for("B to notice", lambda: "lan" not in net.gwb.host.ip("-o", "link").stdout)
    ping(net.client, t.SERVER4, count=5)
    assert net.gwb.daemon.alive()
    lab.link(net.server, "eth0", net.gwb.host, "lan")
    net.server.address("eth0", f"{t.SERVER4}/24", f"{t.SERVER6}/64")
    net.gwb.host.address("lan", f"{t.LAN_B4}/24", f"{t.LAN_B6}/64")
    net.server.route("default", "via", t.LAN_B4)
    net.server.route("default", "via", t.LAN_B6)
    wait_for(
        "traffic to pass again",
        lambda: ping(net.client, t.SERVER4, count=1)["received"] == 1,
    )
    assert_ping(net.client, t.SERVER6, count=5)
    stream.finish()


@pytest.mark.parametrize("how", ["down", "deleted"])
def test_wan_side(network, lab, how):
    net = network().up()
    wire = Capture(net.mid, "east")
    if how == "down":
        net.gwa.host.ip("link", "set", "dev", "wan", "down")
    else:
        net.gwa.host.ip("link", "del", "dev", "wan")
    ping(net.client, t.SERVER4, count=3)
    assert net.gwa.daemon.alive()
    if how == "down":
        net.gwa.host.ip("link", "set", "dev", "wan", "up")
        net.gwa.host.ip("addr", "replace", f"{t.WAN_A6}/64", "dev", "wan", "nodad")
    else:
        lab.link(net.gwa.host, "wan", net.mid, "west")
        net.mid.ip("link", "set", "dev", "west", "master", "br0")
        net.gwa.host.address("wan", f"{t.WAN_A4}/24", f"{t.WAN_A6}/64")
    net.gwa.host.ip("route", "replace", "10.2.0.0/24", "via", t.WAN_B4)
    net.gwa.host.ip("-6", "route", "replace", "2001:db8:2::/64", "via", t.WAN_B6)
    net.gwa.swan.swanctl("--initiate", "--child", "net", "--timeout", 30, check=False)
    wait_for(
        "traffic to pass again",
        lambda: ping(net.client, t.SERVER4, count=1)["received"] == 1,
    )
    assert_only_protected(wire.stop())


def test_a_link_that_is_down_for_a_moment(network):
    """The port's counters go on, and one of AF_XDP is not opened anew: no packet waits for that."""
    net = network().up()
    gateway = net.gwa
    assert_ping(net.client, t.SERVER4, count=20)

    def port():
        return next(p for p in gateway.daemon.json("port") if p["interface"] == "lan")

    before = port()
    assert before["rx_packets"] >= 20 and before["state"] == "up", before
    gateway.host.ip("link", "set", "dev", "lan", "down")
    down = wait_for("the port to be down", lambda: port()["state"].startswith("down") and port())
    assert down["rx_packets"] >= before["rx_packets"], (before, down)
    status = gateway.daemon.json("status")
    assert status["ports_up"] == status["ports"] - 1, status
    gateway.host.ip("link", "set", "dev", "lan", "up")
    wait_for("traffic to pass again", lambda: ping(net.client, t.SERVER4, count=1)["received"] == 1)
    assert_ping(net.client, t.SERVER4, count=20)
    after = port()
    assert after["state"] == "up" and after["rx_packets"] >= before["rx_packets"] + 20, (before, after)
    if after["kind"] == "af-xdp":
        assert "port closed" not in gateway.daemon.log()
