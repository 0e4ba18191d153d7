"""A crash under traffic, at either gateway, several times."""

import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, IvRecord, assert_only_protected
from lab.traffic import Stream, assert_ping, ping


def pairs(swan):
    return sorted((c["spi-in"], c["spi-out"]) for c in swan.children("net"))


@pytest.mark.sample_of_cases("no-gwa", "yes-gwb")
@pytest.mark.parametrize("side", ["gwa", "gwb"])
@pytest.mark.parametrize("encap", ["no", "yes"])
def test_crash_under_traffic(network, side, encap):
    net = network(encap=encap).start()
    wire = Capture(net.mid, "west", snap=256)
    net.gwa.swan.initiate()
    gateway = getattr(net, side)
    ike = net.gwa.swan.sas()[0][1]["uniqueid"]
    before = pairs(net.gwa.swan)
    there = Stream(net.client, net.server, t.SERVER4, rate=1000)
    six = Stream(net.server, net.client, t.CLIENT6, rate=200, port=7100)
    for _ in range(2):
        time.sleep(0.5)
        gateway.daemon.kill9()
        # Local traffic too, and new flows, while nobody encrypts.
        for host, to in (
            (gateway.host, t.SERVER4 if side == "gwa" else t.CLIENT4),
            (net.client, t.SERVER4),
            (net.server, t.CLIENT6),
        ):
            source = [] if host is not gateway.host else [
                t.LAN_A4 if side == "gwa" else t.LAN_B4
            ]  # fmt: skip
            result = ping(host, to, count=3, **({"source": source[0]} if source else {}))
            assert result["received"] == 0, result["text"]
        gateway.daemon.start()
        assert_ping(net.client, t.SERVER4, count=5)
    time.sleep(0.5)
    first, second = there.finish(), six.finish()
    for report in (first, second):
        assert report["there"]["duplicated"] == 0 and report["back"]["duplicated"] == 0, report
        assert report["back"]["received"] > 0, report
    frames = wire.stop()
    assert_only_protected(frames)
    IvRecord().add(frames).assert_no_repeat()
    # The same SAs, the same IKE_SA: nothing was negotiated again.
    assert pairs(net.gwa.swan) == before
    assert net.gwa.swan.sas()[0][1]["uniqueid"] == ike
    # (MOBIKE may talk about addresses that come and go: that negotiates nothing.)
    # What is sent again is the same packet, byte for byte (RFC 7296 section 2.1).
    ike = {f.data[f.payload :]: f.ike_exchange for f in frames if f.kind == "ike"}
    exchanges = list(ike.values())
    assert exchanges.count(34) == 2 and exchanges.count(36) == 0, exchanges
    # And charon still reaches the database: rekeying works after the restart.
    gateway.swan.rekey(child="net")
    wait_for("a new CHILD_SA", lambda: pairs(net.gwa.swan) != before)
    assert_ping(net.client, t.SERVER4, count=5)
    assert_ping(net.server, t.CLIENT6, count=5)


def test_replay_after_a_crash(network):
    """The window survives: what was received before the crash is not taken again after it."""
    from lab.inject import Injector

    net = network().up()
    wire = Capture(net.mid, "west", f"ip and dst {t.WAN_B4}")
    ping(net.client, t.SERVER4, count=40, interval=0.005)
    old = [f.data for f in wire.stop() if f.is_esp]
    net.gwb.daemon.kill9()
    net.gwb.daemon.start()
    arrived = Capture(net.server, "eth0", "icmp")
    Injector(net.mid, "east").send(*old)
    time.sleep(0.5)
    assert arrived.stop() == []
    assert_ping(net.client, t.SERVER4, count=5)
