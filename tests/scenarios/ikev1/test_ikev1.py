"""IKEv1 knows one selector per quick mode: IPv4 alone."""

from lab import topology as t
from lab.base import wait_for
from lab.traffic import assert_ping


def test_ikev1(network):
    net = network(version="1", ts_a="10.1.0.0/24", ts_b="10.2.0.0/24").up()
    name, sa = net.gwa.swan.sas()[0]
    assert sa["version"] == "1"
    assert_ping(net.client, t.SERVER4, count=10)
    first = net.gwa.swan.children("net")[0]["spi-in"]
    net.gwa.swan.rekey(child="net")
    wait_for(
        "a new CHILD_SA",
        lambda: any(c["spi-in"] != first for c in net.gwa.swan.children("net")),
    )
    assert_ping(net.client, t.SERVER4, count=10)
