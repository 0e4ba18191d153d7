"""Rekeying must be invisible to the traffic."""

import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, IvRecord, leaks
from lab.traffic import Stream, assert_perfect


def rekey_child(swan):
    before = {c["spi-in"] for c in swan.children("net")}
    swan.rekey(child="net")
    wait_for(
        "a new CHILD_SA",
        lambda: {c["spi-in"] for c in swan.children("net")} - before,
    )


@pytest.mark.parametrize("encap", ["no", "yes"])
def test_nothing_lost_nothing_doubled(network, encap):
    net = network(encap=encap).up()
    # A bounded rate: the question is what rekeying loses, not what a full queue drops.
    load = Stream(net.client, net.server, t.SERVER4, rate=2000, size=1200, port=7200)
    stream = Stream(net.client, net.server, t.SERVER4, rate=1000)
    six = Stream(net.client, net.server, t.SERVER6, rate=200, port=7100)
    for round_number in range(4):
        time.sleep(0.6)
        rekey_child((net.gwa if round_number % 2 == 0 else net.gwb).swan)
    for side in (net.gwa, net.gwb):
        first = side.swan.sas()[0][1]["initiator-spi"]
        side.swan.rekey(ike="gw")
        wait_for(
            "a new IKE_SA",
            lambda side=side, first=first: any(
                sa["initiator-spi"] != first for _, sa in side.swan.sas()
            ),
        )
        time.sleep(0.6)
    rekey_child(net.gwa.swan)
    # The old inbound SA stays some seconds for packets that are late: outlive it.
    time.sleep(6)
    assert_perfect(stream.finish())
    assert_perfect(six.finish())
    assert_perfect(load.finish())
    if net.gwa.daemon:
        for gateway in net.gateways():
            drops = {k: v for k, v in gateway.daemon.drops().items() if v}
            assert not drops, (gateway.host.name, drops)


def test_no_iv_twice_and_nothing_in_clear(network):
    net = network().start()
    wire = Capture(net.mid, "west", snap=128)
    net.gwa.swan.initiate()
    stream = Stream(net.client, net.server, t.SERVER4, rate=500)
    for count in range(1, 5):
        # Each rekeying makes an SA for each direction, and all are used.
        wait_for(
            f"{2 * count} SAs on the wire",
            lambda n=count: len(IvRecord().add(wire.frames()).sequences) >= 2 * n,
            step=0.2,
        )
        if count < 4:
            rekey_child(net.gwa.swan)
    assert_perfect(stream.finish())
    frames = wire.stop()
    assert not leaks(frames)
    IvRecord().add(frames).assert_no_repeat()


def test_volume_lifetime_rekeys(network):
    """Byte and packet limits rekey too: the counters that charon is told are live."""
    net = network(extra_child="rekey_packets = 500\n        life_packets = 5000\n"
                  "        rand_packets = 0").up()  # fmt: skip
    first = net.gwa.swan.children("net")[0]["spi-in"]
    stream = Stream(net.client, net.server, t.SERVER4, count=3000)
    stream.wait()
    assert_perfect(stream.finish())
    # Long before the last packet; but charon may be slow to hear of it.
    wait_for(
        "a new CHILD_SA",
        lambda: [c["spi-in"] for c in net.gwa.swan.children("net")] not in ([], [first]),
    )
