"""Parity: a branch and a data centre recover what their one path loses."""

import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.branch import branch, impaired
from lab.traffic import Stream, assert_perfect

PROBES = "interval_ms = 50\nmisses = 5\nwindow = 40\ntimeout_ms = 500\nhold_s = 1"

RULES = """
[[steer]]
name = "video"
paths = ["mpls"]
max_loss_percent = 50
return_after_s = 1
"""

#: Packets of a group, and how parity is asked for.
OF = 4
PARITY = f"parity = {OF}\nparity_ms = 20\n"

#: Packets of a stream, and of each second: a group fills in half of `parity_ms`.
PACKETS, RATE = 4000, 400

#: A path that loses one packet of twenty each way.
LOSSY = {"mpls": {"delay_ms": 5, "loss": 0.05}, "internet": {"cut": True}, "lte": {"cut": True}}


@pytest.fixture(name="site")
def fixture_site(network):
    """Makes the branch; the network, and its impaired wire."""
    wires = []

    def make(rules=RULES + PARITY, removes=True):
        net = network()
        wires.append(branch(net, path=PROBES, config=rules, reflector="remove_copies = true" if removes else ""))
        return net, wires[-1]

    yield make
    for wire in wires:
        wire.close()


def steer(gateway):
    return gateway.daemon.json("steer")[0]


def with_parity(net):
    """Waits until both ends send parity, and have heard some of it."""
    for gateway in net.gateways():
        wait_for(f"{gateway.host.name}: parity", lambda g=gateway: steer(g).get("parity") == {"of": OF}, timeout=20)
    # Of each flow the first group begins the memory of its stream.
    report = call(net, count=100)
    assert_perfect(report)


def call(net, count=PACKETS):
    stream = Stream(net.client, net.server, t.SERVER4, rate=RATE, count=count)
    stream.wait()
    # What is lost for good is waited for until then.
    time.sleep(0.2)
    return stream.finish()


def losses(report):
    """Shares that were lost there, and on the way back."""
    there, back = report["there"], report["back"]
    for way in (there, back):
        assert way["duplicated"] == way["reordered"] == 0, report
    return there["lost"] / report["sent"], (back["lost"] - there["lost"]) / there["received"]


def test_parity_brings_back_four_of_five_lost_packets(site):
    net, wire = site()
    wire.set(*impaired(mpls={"delay_ms": 5}))
    with_parity(net)
    wire.set(*impaired(**LOSSY))
    report = call(net)
    shares = losses(report)
    print("lost with parity:", shares)
    # 0.93 %: a packet is lost, and one of the four others of its group and parity is, too. Four standard deviations.
    assert all(0.002 < share < 0.018 for share in shares), report
    for gateway in net.gateways():
        assert gateway.daemon.drops().get("parity-missing", 0) > 0
        assert gateway.daemon.drops().get("parity-malformed", 0) == 0


def test_without_parity_all_of_them_are_lost(site):
    net, wire = site(rules=RULES)
    wire.set(*impaired(**LOSSY))
    shares = losses(call(net))
    print("lost without parity:", shares)
    assert all(0.036 < share < 0.064 for share in shares), shares


def test_no_parity_goes_to_a_far_end_that_does_not_recover(site):
    net, wire = site(removes=False)
    wire.set(*impaired(mpls={"delay_ms": 5}))
    why = "the far end of mpls does not recover packets by parity"
    for gateway in net.gateways():
        wait_for(f"{gateway.host.name}: {why}", lambda g=gateway: why in steer(g).get("parity", {}).get("refused", ""))
        assert f"no parity: {why}" in gateway.daemon.culvert("steer").stdout
    assert_perfect(call(net, count=400))
    assert net.gwa.daemon.drops().get("parity-missing", 0) == 0
