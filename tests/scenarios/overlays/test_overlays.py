"""Overlays that Linux has as interfaces, between a gateway with culvert and one with Linux alone, or another culvert."""

import pytest

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected, kinds
from lab.overlays import KINDS, both_ways, carried, ends, is_v6, overlay, row, tcp, work
from lab.traffic import assert_ping, ping


@pytest.mark.parametrize("plane", ["culvert+plain"], indirect=True)
def test_vxlan_with_linux_at_the_other_end(network):
    """Alone, in clear."""
    net = network()
    overlay(net.gwa, 1, "vxlan-dev")
    overlay(net.gwb, 2, "vxlan-dev")
    net.gwa.start()
    wire = Capture(net.mid, "west")
    both_ways(net)
    carried(net, [net.gwa], 300)
    seen = kinds(wire.stop())
    assert seen.get("ip", 0) >= 300, seen
    tcp(net, net.gwa)
    found = row(net.gwa)
    assert (found["carried"], found["kind"], found["id"]) == (True, "vxlan", "vni 42 port 4789")
    # Its addresses of both families, and perhaps the one of the link.
    assert found["far_ends"] in (2, 3)
    why = net.gwa.daemon.culvert("why", "--from", t.CLIENT4, "--to", t.SERVER4, "--in", "lan").stdout
    assert "headers of ov" in why, why
    # To the gateway itself: Linux has it from its own interface.
    assert_ping(net.server, "10.9.0.1", count=3)
    assert work(net.gwa, "overlay-left") >= 3
    # What does not fit is told to its sender: 50 bytes of headers.
    answer = net.client.run("ping", "-c", "1", "-W", "2", "-M", "do", "-s", "1472", t.SERVER4, check=False)
    # The gateway tells it, or the sender's own Linux, which has been told about the stream before.
    said = answer.stdout + answer.stderr
    assert "mtu" in said.lower() and "1450" in said, said
    # A setting that is Linux's alone, and an interface that is not named.
    net.gwa.host.ip("link", "add", "br7", "type", "bridge")
    net.gwa.host.ip("link", "set", "ov", "master", "br7")
    wait_for("a word why", lambda: "belongs to br7" in row(net.gwa)["why"])
    assert any("overlay ov: Linux carries it out" in w for w in net.gwa.daemon.json("status")["warnings"])
    net.gwa.host.ip("link", "set", "ov", "nomaster")
    wait_for("the overlay", lambda: row(net.gwa)["carried"])
    net.gwa.daemon.write_config(net.gwa.daemon.config.read_text().replace('["ov"]', '["other"]'))
    net.gwa.daemon.reload()
    assert any('overlay.interfaces = "other"' in w for w in net.gwa.daemon.json("status")["warnings"])
    assert row(net.gwa)["why"] == "overlay.interfaces does not name it"
    before = work(net.gwa, "overlay-encapsulated")
    both_ways(net)
    assert work(net.gwa, "overlay-encapsulated") == before


@pytest.mark.parametrize("mode", ["transport", "tunnel"])
def test_vxlan_over_ipsec(network, mode):
    """Between two culverts: headers and ESP in one pass."""
    net = network(mode=mode, local_a=t.WAN_A4, ts_a=f"{t.WAN_A4}/32", ts_b=f"{t.WAN_B4}/32")
    for gw, side in ((net.gwa, 1), (net.gwb, 2)):
        overlay(gw, side, "vxlan")
    net.up()
    wire = Capture(net.mid, "west")
    both_ways(net)
    carried(net, [net.gwa, net.gwb], 300)
    frames = wire.stop()
    assert_only_protected(frames, protected=("10.0.0.0/8",), allow=())
    seen = kinds(frames)
    assert seen["esp"] >= 600 and not set(seen) - {"esp", "arp", "nd", "ike", "icmp6"}, seen


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("gre-") and kind != "vxlan-dev"])
@pytest.mark.parametrize("plane", ["culvert+kernel"], indirect=True)
def test_each_in_transport_mode_with_linux_at_the_other_end(network, kind):
    """As DMVPN has it. GRE and ESP of gateway B are the kernel's."""
    a, b = ends(kind)
    length = 128 if is_v6(kind) else 32
    net = network(
        mode="transport", local_a=a, remote_a=b, local_b=b, ts_a=f"{a}/{length}", ts_b=f"{b}/{length}",
    )  # fmt: skip
    overlay(net.gwa, 1, kind)
    overlay(net.gwb, 2, kind)
    net.up()
    wire = Capture(net.mid, "west")
    both_ways(net)
    carried(net, [net.gwa], 100)
    frames = wire.stop()
    assert_only_protected(frames, protected=("10.0.0.0/8",), allow=())
    assert kinds(frames)["esp"] >= 200, kinds(frames)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith(("gre", "ip6gre", "geneve"))])
@pytest.mark.parametrize("plane", ["culvert+kernel"], indirect=True)
def test_each_alone_with_linux_at_the_other_end(network, kind):
    net = network()
    overlay(net.gwa, 1, kind)
    overlay(net.gwb, 2, kind)
    net.gwa.start()
    both_ways(net)
    carried(net, [net.gwa], 100)
    tcp(net, net.gwa)
    # What does not fit is told once, and then comes in pieces.
    told = ping(net.client, t.SERVER4, count=3, interval=1, size=1472, wait=5)
    assert told["received"] >= 2, told["text"]
    # Linux's own, to the far end itself.
    assert_ping(net.client, "10.9.0.2", count=2, wait=5)
