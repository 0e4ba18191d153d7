"""B answers from an address of its own; A only ever sees the NAT's."""

from lab import topology as t
from lab.capture import Capture, assert_only_protected, kinds, one_by_one
from lab.traffic import Stream, assert_perfect, assert_ping


def test_behind_another_address(network):
    net = network(
        remote_a=t.NAT_OUT4, local_b=t.NAT_B4, ts_a="10.1.0.0/24", ts_b="10.2.0.0/24"
    ).start()
    one_by_one(net.gwa.host, net.gwb.host)
    wire = Capture(net.mid, "east")
    net.gwa.swan.initiate()
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.server, t.CLIENT4, count=10)
    stream = Stream(net.client, net.server, t.SERVER4, count=500, most=100)
    stream.wait()
    assert_perfect(stream.finish())
    frames = wire.stop()
    assert_only_protected(frames)
    assert kinds(frames)["esp-udp"] >= 1000
