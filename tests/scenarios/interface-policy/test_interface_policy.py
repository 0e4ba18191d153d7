"""swanctl's `interface`: what leaves by it is the policy's, and nothing else is."""

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import assert_ping, ping

OFFICE, THERE = "10.9.0.1", "10.9.0.2"


def with_office(net, lab):
    """A third network at gateway A, over an interface that is no port."""
    office = lab.host("office")
    lab.link(net.gwa.host, "office", office, "eth0")
    net.gwa.host.address("office", f"{OFFICE}/24")
    office.address("eth0", f"{THERE}/24")
    office.route("default", "via", OFFICE)
    return office


def test_a_firewall_of_shunts(network, lab):
    net = network(ts_a="10.1.0.0/24", ts_b="10.2.0.0/24")
    office = with_office(net, lab)
    gwa = net.gwa.host
    net.up()
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4)
    assert_ping(net.server, t.CLIENT4)
    assert_ping(gwa, t.SERVER4, source=t.LAN_A4)
    # Out of the outside, and not the tunnel's.
    for host in (net.client, gwa, office):
        assert ping(host, t.WAN_B4, count=3)["received"] == 0, host
    frames = wire.stop()
    assert_only_protected(frames, allow=())
    # What comes in is not stopped there, its answer is.
    wire = Capture(net.mid, "west", "icmp")
    assert ping(net.gwb.host, t.WAN_A4, count=3)["received"] == 0
    assert {str(frame.src) for frame in wire.stop()} == {t.WAN_B4}
    # Everywhere else Linux's own ways are open: local, forwarded, by ports and by others.
    assert_ping(gwa, THERE)
    assert_ping(office, OFFICE)
    assert_ping(net.client, THERE)
    assert_ping(office, t.CLIENT4)
    assert_ping(net.client, t.LAN_A4)
    # The port that is let pass, from here and from behind.
    for host in (gwa, net.client):
        answer = host.run(
            "python3", "-c",
            f"import socket; socket.create_connection(({t.WAN_B4!r}, 22), 20)", check=False,
        )  # fmt: skip
        assert "ConnectionRefused" in answer.stderr, answer.stderr
    rows = net.gwa.daemon.json("policy")
    assert {row["dev"] for row in rows} == {None, "wan"}, rows
    assert "DEV" in net.gwa.daemon.culvert("policy").stdout


def test_a_bypass_of_an_interface(network, lab):
    """It is for that interface alone: the same destination by another way is the tunnel's."""
    net = network(ts_a="10.1.0.0/24", ts_b="10.2.0.0/24")
    office = with_office(net, lab)
    office.address("lo", "10.2.0.77/32")
    net.up()
    gwa, daemon = net.gwa.host, net.gwa.daemon
    daemon.exec(
        "ip", "xfrm", "policy", "add", "src", "10.1.0.0/24", "dst", "10.2.0.0/24", "dev", "office",
        "dir", "out", "priority", "1",
    )  # fmt: skip
    daemon.exec(
        "ip", "xfrm", "policy", "add", "src", "10.2.0.77/32", "dst", "10.1.0.0/24",
        "dir", "in", "priority", "1",
    )  # fmt: skip
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4)
    # In the table where charon has its route to the other network.
    gwa.route("10.2.0.77/32", "via", THERE, "table", "220")
    assert_ping(gwa, "10.2.0.77", source=t.LAN_A4)
    # The way changes under the flow.
    gwa.ip("route", "replace", "10.2.0.77/32", "via", t.WAN_B4, "table", "220")
    assert ping(gwa, "10.2.0.77", source=t.LAN_A4, count=3)["received"] == 0
    assert_only_protected(wire.stop())


def test_an_interface_that_is_gone(network, lab):
    net = network(ts_a="10.1.0.0/24", ts_b="10.2.0.0/24")
    with_office(net, lab)
    net.up()
    daemon = net.gwa.daemon
    daemon.exec(
        "ip", "xfrm", "policy", "add", "src", "10.1.0.0/24", "dst", "10.7.0.0/24", "dev", "office",
        "dir", "out", "action", "block",
    )  # fmt: skip
    net.gwa.host.ip("link", "del", "office")
    gone = lambda: any("exist any more" in w for w in daemon.json("status")["warnings"])  # noqa: E731
    wait_for("the warning", gone)
    assert "does not exist any more" in daemon.log()
    assert any(row["dev"] and "gone" in row["dev"] for row in daemon.json("policy"))
    assert_ping(net.client, t.SERVER4)
