"""Packets in copies: a branch and a data centre send a call over two of their tunnels, and each takes it once."""

import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.branch import branch, carried, impaired
from lab.emodel import mos
from lab.traffic import Stream, assert_ping, assert_perfect

PROBES = "interval_ms = 50\nmisses = 5\nwindow = 40\ntimeout_ms = 500\nhold_s = 1"

RULES = """
[[steer]]
name = "voice"
paths = ["mpls", "internet", "lte"]
copies = 2
max_loss_percent = 50
return_after_s = 1
"""

#: What the paths are like by themselves.
USUAL = {"mpls": {"delay_ms": 5}, "internet": {"delay_ms": 15}, "lte": {"cut": True}}

#: Packets of a call; at 200 a second its numbers are large enough to count by.
PACKETS, RATE = 2000, 200


@pytest.fixture(name="site")
def fixture_site(network):
    """Makes the branch; the network, and its impaired wire."""
    wires = []

    def make(rules=RULES, removes=True):
        net = network()
        wires.append(branch(net, path=PROBES, config=rules, reflector="remove_copies = true" if removes else ""))
        return net, wires[-1]

    yield make
    for wire in wires:
        wire.close()


def steer(gateway):
    return gateway.daemon.json("steer")[0]


def copied(net, path, timeout=20):
    """Waits until both ends send second copies by a path."""
    for gateway in net.gateways():
        wait_for(
            f"{gateway.host.name}: copies by {path}", lambda g=gateway: steer(g).get("copies") == {"by": path}, timeout=timeout
        )


def refused(gateway, why):
    wait_for(f"{gateway.host.name}: {why}", lambda: why in steer(gateway).get("copies", {}).get("refused", ""))
    assert why in gateway.daemon.culvert("steer").stdout


def call(net):
    stream = Stream(net.client, net.server, t.SERVER4, rate=RATE, count=PACKETS)
    stream.wait()
    # What both paths have lost is waited for until then.
    time.sleep(0.2)
    return stream.finish()


def test_a_call_survives_what_one_path_loses(site):
    net, wire = site()
    wire.set(*impaired(**USUAL))
    copied(net, "internet")
    wire.set(*impaired(**{**USUAL, "mpls": {"delay_ms": 5, "loss": 0.3}}))
    before = [gateway.daemon.drops().get("copy-duplicate", 0) for gateway in net.gateways()]
    report = call(net)
    assert_perfect(report)
    for way in ("there", "back"):
        assert report[way]["reordered"] == 0, report
    for gateway, had in zip(net.gateways(), before, strict=True):
        doubled = gateway.daemon.drops()["copy-duplicate"] - had
        # Seven of ten came twice.
        assert 0.6 * PACKETS < doubled < 0.8 * PACKETS, doubled
    # The same call over one path is no call: G.107 says so.
    assert mos(75, 0) > 4.3 and mos(75, 30) < 2.5


def test_what_both_paths_lose_is_the_product_of_their_losses(site):
    net, wire = site()
    wire.set(*impaired(**USUAL))
    copied(net, "internet")
    bad = {"mpls": {"delay_ms": 5, "loss": 0.3}, "internet": {"delay_ms": 15, "loss": 0.1}, "lte": {"cut": True}}
    wire.set(*impaired(**bad))
    report = call(net)
    there, back = report["there"], report["back"]
    # 3 % of it, four standard deviations to both sides.
    assert 0.015 < there["lost"] / report["sent"] < 0.046, report
    assert 0.015 < (back["lost"] - there["lost"]) / there["received"] < 0.046, report
    for way in (there, back):
        assert way["duplicated"] == way["reordered"] == 0, report
    gaps = net.gwb.daemon.json("stats")
    assert "copies-gaps" in str(gaps)


def test_nothing_is_copied_to_a_far_end_that_does_not_remove(site):
    net, wire = site(removes=False)
    wire.set(*impaired(**USUAL))
    for gateway in net.gateways():
        refused(gateway, "the far end of mpls does not remove copies")
    before = carried(net.gwa)
    stream = Stream(net.client, net.server, t.SERVER4, rate=RATE, count=400)
    stream.wait()
    assert_perfect(stream.finish())
    grown = {name: count - before[name] for name, count in carried(net.gwa).items()}
    # Probes and reflections alone: 40 a second.
    assert grown["mpls"] >= 400 and grown["internet"] < 250, grown


def test_the_second_path_is_another_one_when_it_dies(site):
    net, wire = site()
    wire.set(*impaired(**{**USUAL, "lte": {"delay_ms": 30}}))
    copied(net, "internet")
    stream = Stream(net.client, net.server, t.SERVER4, rate=RATE)
    wire.set(*impaired(**{**USUAL, "internet": {"cut": True}, "lte": {"delay_ms": 30}}))
    copied(net, "lte")
    wire.set(*impaired(**{**USUAL, "internet": {"cut": True}}))
    time.sleep(1)
    # One that loses much may seem dead: it keeps its copies until another is better.
    for gateway in net.gateways():
        assert steer(gateway)["copies"] == {"by": "lte"}
    report = stream.finish()
    # The first path was there all the time.
    for way in ("there", "back"):
        assert report[way]["lost"] == report[way]["duplicated"] == 0, report
    # And the first dies too: the others carry the call.
    wire.set(*impaired(**{**USUAL, "lte": {"delay_ms": 30}}))
    copied(net, "internet")
    stream = Stream(net.client, net.server, t.SERVER4, rate=RATE)
    time.sleep(0.5)
    wire.set(*impaired(mpls={"cut": True}, internet={"delay_ms": 15}, lte={"delay_ms": 30}))
    copied(net, "lte")
    time.sleep(0.5)
    report = stream.finish()
    for way in ("there", "back"):
        assert report[way]["lost"] == report[way]["duplicated"] == 0, report


def test_a_far_end_that_has_restarted_has_other_labels(site):
    net, wire = site()
    wire.set(*impaired(**USUAL))
    copied(net, "internet")
    net.gwb.daemon.kill9()
    net.gwb.daemon.start()
    wait_for("steer rules again", lambda: steer(net.gwb), timeout=20)
    copied(net, "internet")
    assert_ping(net.client, t.SERVER4, count=3)
    before = net.gwb.daemon.drops().get("copy-duplicate", 0)
    report = call(net)
    assert_perfect(report)
    assert net.gwb.daemon.drops()["copy-duplicate"] > before + PACKETS // 2
