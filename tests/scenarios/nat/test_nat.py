"""NAT traversal, and a NAT that forgets its bindings."""

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected, kinds
from lab.traffic import Stream, assert_perfect, assert_ping, ping

#: The NAT box's outside address is not protected, the LANs are; there is no IPv6 here.
VALUES = {
    "local_a": t.NAT_A4,
    "ts_a": "10.1.0.0/24",
    "ts_b": "10.2.0.0/24",
}


def test_through_nat(network):
    net = network(**VALUES).start()
    wire = Capture(net.mid, "west")
    net.gwa.swan.initiate()
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.server, t.CLIENT4, count=10)
    stream = Stream(net.client, net.server, t.SERVER4, count=1000)
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
    before = net.gwb.swan.sas()[0][1]["remote-port"]
    net.nat.run(
        "nft", "-f", "-",
        stdin="flush ruleset\ntable ip nat { chain post { type nat hook postrouting priority "
        'srcnat; oifname "out" meta l4proto udp masquerade to :40000-40999 random; }; }\n',
    )  # fmt: skip
    net.nat.run("conntrack", "-F", check=False)
    # The first packets from behind the NAT carry the new port; charon at B is told (MAPPING).
    def follows():
        ping(net.client, t.SERVER4, count=5, interval=0.2)
        return net.gwb.swan.sas()[0][1]["remote-port"] != before

    wait_for("B to follow the port", follows)
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.server, t.CLIENT4, count=10)
