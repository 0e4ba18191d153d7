"""Ports of packet sockets, asked for and chosen. Any scenario runs with such ports where CULVERT_PORTS=packet is set."""

import json
import socket
from pathlib import Path

import pytest
from lab import forbid_family
from lab import topology as t
from lab.capture import Capture, IvRecord, assert_only_protected
from lab.traffic import PYTHON, Iperf, Stream, assert_perfect, assert_ping, ping

#: Takes an address family from a program.
FORBID = Path(forbid_family.__file__)


def modes(daemon):
    return {p["interface"]: (p["kind"], p["mode"]) for p in daemon.json("port") if p["kind"] != "tun"}


@pytest.mark.parametrize("encap", ["yes", "no"])
def test_tunnel(network, monkeypatch, encap):
    monkeypatch.setenv("CULVERT_PORTS", "packet")
    net = network(encap=encap)
    if encap == "no":
        # One of both kinds: the middle is AF_XDP's.
        monkeypatch.setenv("CULVERT_PORTS", "lan=packet")
        net.gwb.daemon.write_config()
    net.up()
    packet, xdp = ("packet", "tcx, super-packets"), ("af-xdp", "native, copy")
    assert modes(net.gwa.daemon) == {"wan": packet, "lan": packet}
    assert modes(net.gwb.daemon) == {"wan": packet if encap == "yes" else xdp, "lan": packet}
    wire = Capture(net.mid, "west", snap=256)
    assert_ping(net.client, t.SERVER4, count=3)
    six = Stream(net.client, net.server, t.SERVER6, count=200, most=400)
    iperf = Iperf(net.server)
    tcp = iperf.run(net.client, t.SERVER4, total=4 << 20)
    net.gwa.swan.rekey(child="net")
    iperf.run(net.client, t.SERVER6, total=4 << 20)
    six.wait()
    assert_perfect(six.finish())
    iperf.stop()
    assert tcp["bytes"] > 3 << 20
    # Killed: Linux is asked, and the guard answers. What is Linux's own is not eaten.
    net.gwa.daemon.kill9()
    assert ping(net.client, t.SERVER4, count=2)["received"] == 0
    assert_ping(net.client, t.LAN_A4, count=2)
    net.gwa.daemon.start()
    assert_ping(net.client, t.SERVER4, count=3)
    assert_ping(net.server, t.CLIENT6, count=3)
    frames = wire.stop()
    assert_only_protected(frames)
    IvRecord().add(frames).assert_no_repeat()


def chosen(daemon):
    return {p["interface"]: (p["kind"], p["chosen"]) for p in daemon.json("port") if "chosen" in p}


def test_what_is_chosen(network, monkeypatch):
    """A port without a kind has packet sockets on a link without zero copy, and everybody is told why."""
    monkeypatch.setenv("CULVERT_PORTS", "auto")
    net = network().up()
    daemon = net.gwa.daemon
    assert "kind" not in daemon.config.read_text()
    why = "the driver has no zero copy"
    assert chosen(daemon) == {"wan": ("packet", why), "lan": ("packet", why)}
    assert daemon.culvert("port").stdout.rstrip().endswith(f"wan, lan by packet sockets: {why}")
    assert "2 of 2 up (packet sockets)" in daemon.culvert("status").stdout
    assert sorted(daemon.json("status")["ports_by_kind"]["packet"]) == ["lan", "wan"]
    opened = [line for line in daemon.log().splitlines() if "port open" in line]
    assert len(opened) == 2 and all(why in line and "packet" in line for line in opened), opened
    metrics = daemon.culvert("metrics").stdout
    assert f'culvert_port_info{{port="lan",kind="packet",mode="tcx, super-packets",chosen="{why}"}} 1' in metrics
    said = {finding["seen"] for finding in json.loads(daemon.culvert("doctor", "--config", daemon.config, "--json", check=False).stdout)}
    assert f"chosen: packet sockets, as {why}" in said
    [advice] = [text for text in said if "encap = yes" in text]
    assert "2 SAs of raw ESP" in advice, said
    # Another reload chooses nothing anew.
    before = chosen(daemon)
    daemon.reload()
    assert chosen(daemon) == before
    assert_ping(net.client, t.SERVER4, count=3)


def test_a_kernel_without_packet_sockets(network, monkeypatch):
    """Where packet sockets are refused, the port works by AF_XDP, which says so; with kind = "packet" it does not open."""
    monkeypatch.setenv("CULVERT_PORTS", "auto")
    net = network()
    for gateway in net.gateways():
        gateway.daemon.wrapper = [PYTHON, FORBID, str(socket.AF_PACKET)]
    net.up()
    for interface, (kind, why) in chosen(net.gwa.daemon).items():
        assert kind == "af-xdp" and "no packet sockets" in why and "AF_PACKET" in why, (interface, kind, why)
    assert_ping(net.client, t.SERVER4, count=3)
    assert_ping(net.client, t.SERVER6, count=3)
    monkeypatch.setenv("CULVERT_PORTS", "packet")
    daemon = net.gwa.daemon
    daemon.write_config()
    daemon.stop()
    daemon.start()
    assert all("AF_PACKET" in p["state"] for p in daemon.json("port") if p["kind"] == "packet"), daemon.json("port")
