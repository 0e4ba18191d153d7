"""Any to any in transport mode, on a host with several addresses, the wrong one the lowest."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import assert_ping

ANY = {
    "v4": ("0.0.0.0/0", t.WAN_A4, t.WAN_B4),
    "v6": ("::/0", t.WAN_A6, t.WAN_B6),
}


def source_for(host, to):
    """The source address that the kernel takes, with culvert's table."""
    words = host.ip("route", "get", to).stdout.split()
    return words[words.index("src") + 1]


@pytest.mark.parametrize("family", ANY)
def test_the_first_packet_asks_for_the_right_source(network, family):
    everything, own, peer = ANY[family]
    any_host = "%any6" if family == "v6" else "%any4"
    net = network(ts_a=everything, ts_b=everything, any=any_host).start()
    # The lowest address is not the one that leads to the peer.
    wait_for("the trap", lambda: net.gwa.daemon.json("policy"))
    wire = Capture(net.mid, "west")
    assert_ping(net.gwa.host, peer, count=10, interval=0.1)
    child = net.gwa.swan.children("net")[0]
    assert own in str(child["local-ts"]), child
    assert_only_protected(wire.stop(), protected=(), allow=())


def test_sources_follow_routes_and_addresses(network):
    net = network(ts_a="0.0.0.0/0", ts_b="0.0.0.0/0", any="%any4").start()
    host = net.gwa.host
    wait_for("the trap", lambda: net.gwa.daemon.json("policy"))

    def becomes(to, source):
        wait_for(f"{to} from {source}", lambda: source_for(host, to) == source, timeout=10)

    becomes(t.WAN_B4, t.WAN_A4)
    becomes(t.CLIENT4, t.LAN_A4)
    becomes(t.SERVER4, t.WAN_A4)
    host.route("10.9.0.0/16", "via", t.CLIENT4)
    becomes("10.9.1.1", t.LAN_A4)
    host.ip("route", "change", "10.9.0.0/16", "via", t.WAN_B4)
    becomes("10.9.1.1", t.WAN_A4)
    host.address("lan", "10.5.0.1/24")
    host.ip("route", "change", "10.9.0.0/16", "dev", "lan", "src", "10.5.0.1")
    becomes("10.9.1.1", "10.5.0.1")
    host.ip("route", "del", "10.9.0.0/16")
    host.ip("addr", "del", f"{t.LAN_A4}/24", "dev", "lan")
    becomes("10.5.0.9", "10.5.0.1")
    # Multicast stays Linux's.
    assert "culvert0" not in host.ip("route", "get", "224.0.0.251", "oif", "lan").stdout
    assert "throw 224.0.0.0/4" in host.ip("route", "show", "table", "219").stdout
