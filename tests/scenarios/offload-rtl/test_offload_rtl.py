"""A tunnel in the simulated gateway (`make rtl-scenario`); skipped where it is not built in."""

import time

import pytest
from lab import rtl, topology as t
from lab.base import wait_for
from lab.capture import Capture, IvRecord, assert_only_protected
from lab.traffic import Iperf, Stream, assert_perfect, assert_ping

pytestmark = pytest.mark.skipif(bool(rtl.missing()), reason=rtl.missing())


@pytest.fixture
def by_hand(network):
    """SAs and policies by netlink requests."""
    net = rtl.in_hardware(network())
    for gateway in net.gateways():
        gateway.daemon.start()
    rtl.by_hand(net)
    return net


def stream(net, count=0):
    """No more packets under way than the simulation may be behind."""
    return Stream(net.client, net.server, t.SERVER4, rate=50, count=count, most=4)


def assert_both_have_counted(net, least):
    (sealed, there), (back, opened) = rtl.both_ends(net)
    assert sealed == there >= least and opened == back >= least, (sealed, there, back, opened)
    row = rtl.device(net.gwa.daemon)
    assert (row["kind"], row["placement"]) == ("rtl-simulation", "packet offload"), row
    assert (row["wrong_icv"], row["refused"], row["in_software"]) == (0, 0, 0), row
    return sealed, opened


def assert_no_number_twice(frames):
    assert_only_protected(frames)
    ivs = IvRecord()
    ivs.add(frames)
    ivs.assert_no_repeat()


def test_packets_go_through_the_hardware(by_hand):
    net = by_hand
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=5)
    udp = stream(net, count=40)
    udp.wait()
    assert_perfect(udp.finish())
    assert_both_have_counted(net, 45)
    iperf = Iperf(net.server)
    assert iperf.run(net.client, t.SERVER4, seconds=2)["bytes"] > 0
    iperf.stop()
    assert_no_number_twice(wire.stop())


def test_resets_under_traffic_repeat_no_number(by_hand):
    net = by_hand
    wire = Capture(net.mid, "west")
    udp = stream(net)
    for _ in range(5):
        assert "loaded again" in net.gwa.daemon.culvert("device", "--reset", "rtl0").stdout
        time.sleep(0.3)
    assert_perfect(udp.finish())
    assert_no_number_twice(wire.stop())
    assert rtl.device(net.gwa.daemon)["resets"] == 5


@pytest.mark.parametrize("plane", [rtl.PLANE], indirect=True)
def test_a_strongswan_tunnel_goes_through_the_hardware(network):
    """With a rekey and a reset under traffic; charon has the counters of the hardware."""
    net = rtl.in_hardware(network(remote_b=t.WAN_A4)).up()
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=5)
    assert_ping(net.server, t.CLIENT6, count=5)
    udp = stream(net, count=40)
    udp.wait()
    assert_perfect(udp.finish())
    sealed, opened = assert_both_have_counted(net, 50)
    child = net.gwa.swan.children("net")[0]
    assert (int(child["packets-out"]), int(child["packets-in"])) == (sealed, opened), child
    udp = stream(net)
    net.gwa.swan.rekey(child="net")
    wait_for("the new child", lambda: any(child["uniqueid"] != "1" for child in net.gwa.swan.children()))
    net.gwa.daemon.culvert("device", "--reset", "rtl0")
    time.sleep(0.5)
    report = udp.finish()
    # While charon renews the policy the hardware has none, and drops what comes.
    assert all(report[way]["lost"] <= 3 and report[way]["duplicated"] == 0 for way in ("there", "back")), report
    assert {reason for reason, count in net.gwa.daemon.drops().items() if count} <= {"in-policy-block", "out-policy-block"}
    assert_no_number_twice(wire.stop())
