"""start_action = trap: policies without SAs."""

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import assert_ping, ping


def test_traffic_starts_the_tunnel(network):
    net = network(start_action="trap").start()
    wire = Capture(net.mid, "west")
    assert net.gwa.swan.children() == []
    # The first packet waits for the SA: all of them arrive.
    assert_ping(net.client, t.SERVER4, count=20, interval=0.1)
    assert net.gwa.swan.children("net")
    assert_ping(net.client, t.SERVER6, count=5)
    assert_only_protected(wire.stop())


def test_local_traffic_starts_the_tunnel(network):
    net = network(start_action="trap").start()
    wire = Capture(net.mid, "west")
    assert_ping(net.gwa.host, t.SERVER4, source=t.LAN_A4, count=10, interval=0.1)
    assert_only_protected(wire.stop())


def test_no_answer_means_blocked(network):
    """The peer does not speak IKE: protected traffic is held, then dropped, never sent."""
    net = network(start_action="trap")
    net.gwa.start()
    wire = Capture(net.mid, "west")
    result = ping(net.client, t.SERVER4, count=20)
    assert result["received"] == 0, result["text"]
    assert_only_protected(wire.stop())
    wait_for("a drop counter", lambda: sum(net.gwa.daemon.drops().values()) > 0, step=0.5)


def test_the_trap_holds_after_deletion(network):
    net = network(start_action="trap").up()
    wire = Capture(net.mid, "west")
    net.gwa.swan.terminate(ike="gw")
    # On both sides, and out of the data path: a packet under the old SA would be answered by a
    # gateway B that has no policy any more.
    for gateway in (net.gwa, net.gwb):
        wait_for(f"no SA on {gateway.host.name}", lambda g=gateway: not g.daemon.json("sa"))
    assert_ping(net.client, t.SERVER4, count=10, interval=0.1)
    assert_only_protected(wire.stop())
