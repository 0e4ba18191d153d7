"""A routing daemon, FRR, over tunnel interfaces: its neighbours, its routes, and their loss."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.frr import Frr, has, learnt
from lab.traffic import assert_ping, ping

from .test_route_based import FAR4, NEAR4, TUNNEL, tunnels

#: OSPF finds its neighbour by multicast through the tunnel, and tells it the network behind.
OSPFD = """
hostname {name}
log stdout
interface ipsec0
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 3
interface lan
 ip ospf passive
router ospf
 ospf router-id {near}
 network 10.9.0.0/24 area 0
 network {lan} area 0
"""


@pytest.mark.skipif(not has("ospfd"), reason="frr is not installed")
def test_ospf_finds_the_other_network(network):
    net = tunnels(network)
    for gateway in net.gateways():
        gateway.daemon.write_config(gateway.daemon.config.read_text() + TUNNEL)
    net.up()
    speakers = []
    for gateway, near, lan in ((net.gwa, NEAR4, "10.1.0.0/24"), (net.gwb, FAR4, "10.2.0.0/24")):
        host = gateway.host
        host.address("ipsec0", f"{near}/24")
        # No route but OSPF's.
        host.ip("route", "del", "10.2.0.0/24" if gateway is net.gwa else "10.1.0.0/24")
        speakers.append(Frr(host, "ospfd", OSPFD.format(name=host.name, near=near, lan=lan)))
    wait_for("a route at A", lambda: learnt(net.gwa.host, "10.2.0.0/24"))
    wait_for("a route at B", lambda: learnt(net.gwb.host, "10.1.0.0/24"))
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.gwa.host, t.SERVER4, count=5)
    # The neighbour is silent: its routes go, and nothing leaves another way.
    speakers[1].stop()
    wait_for("the loss", lambda: not learnt(net.gwa.host, "10.2.0.0/24"))
    assert ping(net.client, t.SERVER4, count=2)["received"] == 0
    assert_only_protected(wire.stop())
    speakers[0].stop()
