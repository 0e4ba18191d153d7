"""Both gateways with `kind = "packet"`. Any scenario runs with such ports where CULVERT_PORTS=packet is set."""

import pytest
from lab import topology as t
from lab.capture import Capture, IvRecord, assert_only_protected
from lab.traffic import Iperf, Stream, assert_perfect, assert_ping, ping


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
