"""NAT traversal, and a NAT that forgets its bindings."""

from lab import topology as t
from lab.capture import Capture, assert_only_protected, kinds
from lab.nat import VALUES, rebind
from lab.traffic import Stream, assert_perfect, assert_ping


def test_through_nat(network):
    net = network(**VALUES).start()
    wire = Capture(net.mid, "west")
    net.gwa.swan.initiate()
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.server, t.CLIENT4, count=10)
    stream = Stream(net.client, net.server, t.SERVER4, count=1000, most=100)
    stream.wait()
    assert_perfect(stream.finish())
    frames = wire.stop()
    assert_only_protected(frames)
    assert "esp" not in kinds(frames)
    _, sa = net.gwb.swan.sas()[0]
    assert sa["remote-host"] == t.NAT_OUT4 and sa["nat-remote"] == "yes", sa


def test_the_port_changes_under_way(network, plane):
    """The NAT forgets the binding and gives another port: RFC 3948 has B follow it."""
    if "culvert" not in plane:
        import pytest

        pytest.skip("libipsec does not follow a port that changes in ESP alone")
    net = network(**VALUES).up()
    assert_ping(net.client, t.SERVER4, count=3)
    rebind(net)
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.server, t.CLIENT4, count=10)
