"""0.0.0.0/0 with a passthrough for the LAN; strongSwan installs its routes, as by default."""

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import Stream, assert_perfect, assert_ping, ping

VIP = "10.3.0.1"
ROAD = dict(vips="vips = 0.0.0.0", pools="pools = vips", ts_a="dynamic", ts_peer="dynamic")
SITE = dict(vips="", pools="", ts_a="10.1.0.0/24", ts_peer="10.1.0.0/24")


def addresses(frames):
    return {(str(f.src), str(f.dst)) for f in frames if f.src is not None and f.src.version == 4}


def test_a_host_with_a_virtual_address(network):
    net = network(**ROAD).start()
    net.gwa.swan.initiate()
    wait_for("the virtual address", lambda: VIP in net.gwa.host.ip("addr").stdout)
    lan, wire = Capture(net.client, "eth0"), Capture(net.mid, "west")
    # To the LAN in clear, from the address that Linux takes by itself.
    assert_ping(net.gwa.host, t.CLIENT4, count=10)
    assert_ping(net.client, t.LAN_A4, count=10)
    # To the rest through the tunnel, from the virtual address.
    assert_ping(net.gwa.host, t.SERVER4, count=10)
    assert_ping(net.server, VIP, count=10)
    seen = addresses(lan.stop())
    assert (t.LAN_A4, t.CLIENT4) in seen
    assert not any(VIP in pair for pair in seen), seen
    assert_only_protected(wire.stop(), protected=(*t.PROTECTED, "10.3.0.0/28"))
    # IKE goes on, with everything protected.
    net.gwa.swan.rekey(child="net")
    wait_for("the new SA", lambda: len(net.gwa.swan.children("net")) == 1)
    assert_ping(net.gwa.host, t.SERVER4, count=5)
    # Against policy: nothing protects it, and the guard lets nothing else out.
    against = ping(net.gwa.host, t.CLIENT4, source=VIP, count=3)
    assert against["received"] == 0, against["text"]
    # When the policy goes, the routes go with it.
    net.gwa.swan.terminate(ike="gw")
    wait_for("no SA", lambda: not net.gwa.daemon.json("sa"))
    table = net.gwa.host.ip("route", "show", "table", "219").stdout
    assert table == "", table
    assert_ping(net.gwa.host, t.CLIENT4, count=5)


def test_a_gateway(network):
    net = network(**SITE).up()
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.server, t.CLIENT4, count=10)
    assert_ping(net.gwa.host, t.CLIENT4, count=10)
    assert_ping(net.client, t.LAN_A4, count=10)
    assert_ping(net.gwa.host, t.SERVER4, count=10)
    stream = Stream(net.client, net.server, t.SERVER4, count=500)
    stream.wait()
    assert_perfect(stream.finish())
    assert_only_protected(wire.stop())


def test_routes_left_by_a_crash_go(network):
    net = network(**SITE).up()
    throw = lambda: "throw" in net.gwa.host.ip("route", "show", "table", "219").stdout
    assert throw()
    net.gwa.daemon.kill9()
    assert throw()
    net.gwa.daemon.start()
    net.gwa.swan.stop()
    wait_for("no route left", lambda: not throw())
