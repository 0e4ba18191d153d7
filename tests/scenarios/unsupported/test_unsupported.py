"""Policies that ask for what culvert does not do: charon says established, and nothing leaves in clear."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import assert_ping, ping

ANY = "0.0.0.0/0"


def assert_stopped(net, tries):
    """Nothing comes through, and nothing of the protected networks is on the wire in clear."""
    wire = Capture(net.mid, "west")
    for host, to, source in tries:
        assert ping(host, to, count=3, source=source)["received"] == 0, (host, to)
    assert_only_protected(wire.stop())


def every_way(net):
    return [
        (net.client, t.SERVER4, None),
        (net.client, t.SERVER6, None),
        (net.server, t.CLIENT4, None),
        (net.gwa.host, t.SERVER4, t.LAN_A4),
        (net.gwa.host, t.SERVER6, t.LAN_A6),
    ]


def warned(gateway, *words):
    """Told by `culvert status` and in the log."""

    def told():
        warnings = gateway.daemon.json("status")["warnings"]
        return any(all(word in warning for word in words) for warning in warnings)

    wait_for(f"a warning of {words}", told)
    assert words[0] in gateway.daemon.log(), gateway.daemon.log()


def test_marks_of_networks(network):
    """As strongSwan's net2net-same-nets has them."""
    net = network(extra_child="mark_in = 10\nmark_out = 10").up()
    assert net.gwa.swan.children("net"), "charon takes it for established"
    assert_stopped(net, every_way(net))
    # What is not of the tunnel, the way to the machine itself above all, is as it was.
    assert_ping(net.client, t.WAN_B4)
    assert_ping(net.gwa.host, t.WAN_B4)
    assert_ping(net.server, t.WAN_A4)
    warned(net.gwa, "a mark or an if_id", "10.1.0.0/24 to 10.2.0.0/24 mark 0xa/0xffffffff")
    rows = net.gwa.daemon.json("policy")
    assert all(row["action"] == "block (unsupported)" for row in rows), rows
    assert any(row["mark"] == "0xa/0xffffffff" for row in rows), rows
    assert net.gwa.daemon.drops().get("out-unsupported"), net.gwa.daemon.drops()
    # The guard's barriers have no mark either.
    net.gwa.daemon.kill9()
    assert_stopped(net, [(net.client, t.SERVER4, None), (net.gwa.host, t.SERVER4, t.LAN_A4)])
    assert_ping(net.gwa.host, t.WAN_B4)


def test_an_interface_id_for_everything(network):
    """Blocking 0.0.0.0/0 would cut the machine off: only what Linux means so is blocked."""
    net = network(ts_a=ANY, ts_b=ANY, extra_child="if_id_in = 42\nif_id_out = 42")
    gwa = net.gwa.host
    net.up()
    assert net.gwa.swan.children("net")
    warned(net.gwa, "a mark or an if_id", "any address", "if_id 0x2a")
    assert_ping(gwa, t.WAN_B4)
    assert_ping(net.client, t.WAN_B4)
    rows = net.gwa.daemon.json("policy")
    assert {row["action"] for row in rows} == {"none (unsupported)"}, rows
    # Linux's own interface of that id, with the route of a route-based tunnel.
    made = gwa.ip("link", "add", "ipsec0", "type", "xfrm", "if_id", "42", check=False)
    if "Unknown device type" in made.stderr:
        pytest.skip("this kernel has no XFRM interfaces; what is before was tested")
    assert made.returncode == 0, made.stderr
    gwa.ip("link", "set", "ipsec0", "up")
    gwa.ip("route", "replace", "10.2.0.0/24", "dev", "ipsec0")
    assert_stopped(net, [(net.client, t.SERVER4, None), (gwa, t.SERVER4, t.LAN_A4)])


def test_marks_for_everything(network):
    """A packet that Linux marks is blocked, and not led past its mark through culvert."""
    net = network(ts_a=ANY, ts_b=ANY, extra_child="mark_in = 10\nmark_out = 10").up()
    gwa = net.gwa.host
    assert_ping(gwa, t.WAN_B4)
    gwa.run("nft", "-f", "-", stdin="""
        table ip marks {
          chain output {
            type route hook output priority mangle;
            ip daddr 10.2.0.0/24 meta mark set 10
          }
        }
    """)  # fmt: skip
    assert_stopped(net, [(gwa, t.SERVER4, t.LAN_A4)])
    assert_ping(gwa, t.WAN_B4)


def test_ipcomp(network):
    """charon goes on without the IPComp SAs that it is refused."""
    net = network(extra_child="ipcomp = yes").up()
    assert_stopped(net, every_way(net))
    assert_ping(net.client, t.WAN_B4)
    warned(net.gwa, "AH, IPComp or nested", "10.1.0.0/24 to 10.2.0.0/24")
