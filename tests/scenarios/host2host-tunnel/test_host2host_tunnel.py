"""The peer's own address is what the policies protect, and routes to it lead to culvert.

charon installs its routes, as it does by default.
"""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected, kinds
from lab.traffic import Stream, assert_perfect, assert_ping

CASES = {
    "v4": (t.WAN_A4, t.WAN_B4),
    "v6": (t.WAN_A6, t.WAN_B6),
}

#: What administrators write: key exchange by the uplink, nothing else there that is not ESP.
FIREWALL = """
table inet filter {
  chain out {
    type filter hook output priority filter; policy accept;
    oifname "wan" udp dport { 500, 4500 } counter accept
    oifname "wan" icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit,
        mld2-listener-report } accept
    oifname "wan" counter drop
    oifname "culvert0" udp dport { 500, 4500 } counter drop
  }
}
"""


def routes(gateway):
    """Linux's routing, as programs outside of `culvert exec` see it."""
    return gateway.host.ip("route", "show", "table", "all").stdout


@pytest.mark.parametrize("case", CASES)
def test_the_peer_is_the_protected_destination(network, case):
    a, b = CASES[case]
    net = network(mode="tunnel", local_a=a, remote_a=b, local_b=b, ts_a="dynamic", ts_b="dynamic")
    for gateway in net.gateways():
        gateway.host.sysctl("net.ipv4.conf.wan.rp_filter", 1)
        gateway.host.run("nft", "-f", "-", stdin=FIREWALL)
    net.up()
    assert net.gwa.swan.children("net")[0]["mode"] == "TUNNEL"
    wire = Capture(net.mid, "west")
    assert_ping(net.gwa.host, b, count=10)
    assert_ping(net.gwb.host, a, count=10)
    stream = Stream(net.gwa.host, net.gwb.host, b, count=500)
    stream.wait()
    assert_perfect(stream.finish())
    # A rekeying, and dead peer detection's kind of exchange, with the policies in place.
    net.gwa.swan.rekey(child="net")
    wait_for("the new SA", lambda: len(net.gwa.swan.children("net")) == 1)
    net.gwb.swan.rekey(ike="gw")
    assert_ping(net.gwb.host, a, count=10)
    frames = wire.stop()
    assert_only_protected(frames, protected=(), allow=())
    assert kinds(frames).get("esp", 0) > 500
    # charon's own routes lead out of the uplink.
    assert "dev culvert0 table 220" not in routes(net.gwa)
    assert "table 219" in routes(net.gwa)


def test_a_restart_of_charon_finds_the_peer(network):
    """The policies of before stand in culvert while the new charon looks for its way."""
    net = network(
        mode="tunnel", local_a=t.WAN_A4, remote_a=t.WAN_B4, local_b=t.WAN_B4,
        ts_a="dynamic", ts_b="dynamic",
    ).up()  # fmt: skip
    for gateway in net.gateways():
        gateway.swan.process.stop(9)
    net.gwb.swan.start()
    net.gwa.swan.start()
    net.gwa.swan.initiate()
    assert_ping(net.gwa.host, t.WAN_B4, count=10)


def test_a_network_with_the_peer_inside(network):
    """net to net, and the peer's address is one of the remote network's."""
    net = network(
        kind="net4", mode="tunnel", ts_a="10.1.0.0/24,192.0.2.1/32", ts_b="10.2.0.0/24,192.0.2.0/24",
    ).up()  # fmt: skip
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.gwa.host, t.WAN_B4, count=10)
    assert_ping(net.gwb.host, t.WAN_A4, count=10)
    assert_only_protected(wire.stop())
