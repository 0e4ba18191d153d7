"""Transport mode: the hosts' own packets, no new IP header."""

import pytest
from lab import topology as t
from lab.capture import Capture, assert_only_protected, kinds, one_by_one
from lab.traffic import Iperf, Stream, assert_perfect, assert_ping

CASES = {
    "v4": (t.WAN_A4, t.WAN_B4, "no"),
    "v4-encap": (t.WAN_A4, t.WAN_B4, "yes"),
    "v6": (t.WAN_A6, t.WAN_B6, "no"),
}


@pytest.mark.parametrize("case", CASES)
def test_host_to_host(network, case):
    a, b, encap = CASES[case]
    net = network(
        mode="transport", encap=encap, local_a=a, remote_a=b, local_b=b,
        ts_a="dynamic", ts_b="dynamic",
    ).up()  # fmt: skip
    assert net.gwa.swan.children("net")[0]["mode"] == "TRANSPORT"
    one_by_one(net.gwa.host, net.gwb.host)
    wire = Capture(net.mid, "west")
    assert_ping(net.gwa.host, b, count=10)
    assert_ping(net.gwb.host, a, count=10)
    stream = Stream(net.gwa.host, net.gwb.host, b, count=500)
    stream.wait()
    assert_perfect(stream.finish())
    frames = wire.stop()
    # The end points' addresses are on the wire; their content is not.
    assert_only_protected(frames, protected=(), allow=())
    assert kinds(frames).get("esp-udp" if encap == "yes" else "esp", 0) > 1000
    assert Iperf(net.gwb.host).run(net.gwa.host, b, total=8_000_000)["bytes"] > 4_000_000
