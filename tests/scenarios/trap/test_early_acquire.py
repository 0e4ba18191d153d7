"""A firewall that opens only once the tunnel is up: its OUTPUT drops the packet that is to start the tunnel."""

import json

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import assert_ping, first_answer, ping

#: Nothing leaves the gateway itself but IKE.
FIREWALL = """\
table inet firewall {
  chain output {
    type filter hook output priority filter; policy drop;
    udp dport { 500, 4500 } accept
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
    oifname "lo" accept
  }
}
"""

OPEN = "add rule inet firewall output oifname culvert0 accept\n"


def start(network, early):
    net = network(start_action="trap")
    setting = f"\n[tun]\nearly_acquire = {str(early).lower()}\n"
    net.gwa.daemon.write_config(net.gwa.daemon.config.read_text() + setting)
    net.gwa.host.run("nft", "-f", "-", stdin=FIREWALL)
    return net.start()


def tables(host):
    return host.run("nft", "list", "tables").stdout


def test_a_packet_that_output_drops_starts_the_tunnel(network):
    net = start(network, early=True)
    a = net.gwa
    wire = Capture(net.mid, "west")
    for source, to in ((t.LAN_A4, t.SERVER4), (t.LAN_A6, t.SERVER6)):
        assert ping(a.host, to, source=source, count=1)["received"] == 0
        wait_for("the SA", lambda: a.swan.children("net"))
        a.swan.terminate(ike="gw")
        wait_for("its end", lambda: not a.daemon.json("sa") and not net.gwb.daemon.json("sa"))
    told = [json.loads(line) for line in a.daemon.culvert("events", "--once", "--json").stdout.splitlines()]
    asked = {(event["src"], event["dst"]) for event in told if event["event"] == "acquire"}
    assert asked >= {(t.LAN_A4, t.SERVER4), (t.LAN_A6, t.SERVER6)}, told
    assert ping(a.host, t.SERVER4, source=t.LAN_A4, count=1)["received"] == 0
    wait_for("the SA", lambda: a.swan.children("net"))
    a.host.run("nft", "-f", "-", stdin=OPEN)
    assert_ping(a.host, t.SERVER4, source=t.LAN_A4, count=10)
    # The chain only tells: without the daemon, and with the next one.
    a.daemon.kill9()
    assert "culvert-early" in tables(a.host)
    assert ping(a.host, t.SERVER4, source=t.LAN_A4, count=3)["received"] == 0
    a.daemon.start()
    first_answer(net.client, t.SERVER4)
    assert_ping(a.host, t.SERVER4, source=t.LAN_A4, count=10)
    assert_only_protected(wire.stop())
    a.swan.stop()
    a.daemon.stop()
    assert "culvert-early" not in tables(a.host)


def test_not_unless_asked_for(network):
    net = start(network, early=False)
    assert ping(net.gwa.host, t.SERVER4, source=t.LAN_A4, count=3)["received"] == 0
    assert net.gwa.swan.children() == []
    assert "culvert-early" not in tables(net.gwa.host)
