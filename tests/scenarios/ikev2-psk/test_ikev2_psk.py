"""The plain case: two sites, one CHILD_SA for both address families."""

from lab import topology as t
from lab.capture import Capture, assert_only_protected, kinds, one_by_one
from lab.traffic import Iperf, Stream, assert_perfect, assert_ping


def test_sites_reach_each_other(network):
    net = network().start()
    one_by_one(net.gwa.host, net.gwb.host)
    wire = Capture(net.mid, "west")
    net.gwa.swan.initiate()
    for to in (t.SERVER4, t.SERVER6):
        assert_ping(net.client, to, count=20)
    for to in (t.CLIENT4, t.CLIENT6):
        assert_ping(net.server, to, count=20)
    frames = wire.stop()
    assert_only_protected(frames)
    seen = kinds(frames)
    # 40 pings and 40 answers, each one ESP packet.
    assert seen.get("esp", 0) + seen.get("esp-udp", 0) == 160, seen
    assert seen["ike"] >= 4


def test_tcp_udp_and_counters(network):
    net = network().up()
    iperf = Iperf(net.server)
    for to in (t.SERVER4, t.SERVER6):
        for reverse in (False, True):
            result = iperf.run(net.client, to, total=8_000_000, reverse=reverse)
            assert result["bytes"] > 4_000_000, result
    stream = Stream(net.client, net.server, t.SERVER4, count=1000, most=100)
    stream.wait()
    assert_perfect(stream.finish())
    # What charon tells its user comes from the data path's counters.
    child = net.gwa.swan.children("net")[0]
    assert int(child["packets-out"]) > 1000 and int(child["packets-in"]) > 1000, child
    assert int(child["bytes-out"]) > 1000 * 228, child


def test_local_traffic_of_the_gateways(network):
    """A gateway's own packets, from its protected address, take the tunnel too."""
    net = network().up()
    wire = Capture(net.mid, "west")
    assert_ping(net.gwa.host, t.SERVER4, source=t.LAN_A4, count=5)
    assert_ping(net.client, t.LAN_B4, count=5)
    assert_ping(net.client, t.LAN_B6, count=5)
    assert_ping(net.gwa.host, t.LAN_B4, source=t.LAN_A4, count=5)
    assert_only_protected(wire.stop())
