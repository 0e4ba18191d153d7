"""4-in-4, 6-in-4, 4-in-6, 6-in-6, each with its own CHILD_SA."""

import pytest
from lab import topology as t
from lab.capture import Capture, assert_only_protected
from lab.traffic import Stream, assert_perfect, assert_ping

OUTER = {4: (t.WAN_A4, t.WAN_B4), 6: (t.WAN_A6, t.WAN_B6)}
INNER = {
    4: ("10.1.0.0/24", "10.2.0.0/24", t.SERVER4),
    6: ("2001:db8:1::/64", "2001:db8:2::/64", t.SERVER6),
}


@pytest.mark.sample_of_cases("culvert-4-4", "culvert-6-6", "4-6", "6-4")
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_family(network, inner, outer):
    a, b = OUTER[outer]
    ts_a, ts_b, server = INNER[inner]
    net = network(local_a=a, remote_a=b, local_b=b, ts_a=ts_a, ts_b=ts_b).up()
    wire = Capture(net.mid, "west")
    assert_ping(net.client, server, count=5)
    assert_ping(net.client, server, count=5, size=1300)
    stream = Stream(net.client, net.server, server, count=300, most=100)
    stream.wait()
    assert_perfect(stream.finish())
    frames = wire.stop()
    assert_only_protected(frames, protected=(ts_a, ts_b))
    assert {f.dst.version for f in frames if f.is_esp} == {outer}
