"""SAs that charon replaces, moves and deletes while culvert has them."""

import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.traffic import assert_ping
from lab.xfrm import states


def rekey_child(swan):
    before = {c["spi-in"] for c in swan.children("net")}
    swan.rekey(child="net")
    wait_for("a new CHILD_SA", lambda: {c["spi-in"] for c in swan.children("net")} - before)


def spi_of_ike(swan):
    return {sa["initiator-spi"] for _, sa in swan.sas()}


def test_rekey_under_traffic(bed):
    """CHILD_SA and IKE_SA are rekeyed from both sides under traffic, and no packet is lost."""
    net = bed.up()
    bed.start()
    streams = bed.stream(), bed.stream(t.SERVER6, rate=200, port=7100)
    for gateway in net.gateways():
        time.sleep(0.3)
        rekey_child(gateway.swan)
        time.sleep(0.3)
        first = spi_of_ike(gateway.swan)
        gateway.swan.rekey(ike="gw")
        wait_for("a new IKE_SA", lambda g=gateway, f=first: spi_of_ike(g.swan) - f)
    rekey_child(net.gwa.swan)
    # The old inbound SA stays some seconds for packets that are late: outlive it.
    time.sleep(6)
    bed.wait_taken()
    bed.perfect(*streams)
    bed.assert_counted()
    assert len(states(net.gwa.host)) == 2


def test_many_rekeys(bed):
    """A rekey that follows the one before at once, ten times, loses nothing."""
    net = bed.up()
    bed.start()
    stream = bed.stream(rate=300)
    for number in range(10):
        rekey_child((net.gwa if number % 2 else net.gwb).swan)
    bed.perfect(stream)


@pytest.mark.sample
def test_start_while_rekeying(bed):
    """culvert starts and stops while CHILD_SAs are rekeyed, and no packet is lost."""
    net = bed.up()
    stream = bed.stream(rate=300)
    for number in range(3):
        net.gwb.swan.rekey(child="net")
        bed.start(taken=False)
        time.sleep(0.3)
        net.gwb.swan.rekey(child="net")
        bed.stop()
    time.sleep(0.5)
    bed.perfect(stream)


def test_reauthentication(bed):
    """Reauthentication (make before break) replaces IKE_SA and CHILD_SAs, and loses no more than the kernel alone."""
    net = bed.up()
    bed.start()
    stream = bed.stream(most=0)
    time.sleep(0.3)
    first = spi_of_ike(net.gwa.swan)
    net.gwa.swan.swanctl("--rekey", "--ike", "gw", "--reauth")
    wait_for("another IKE_SA alone", lambda: (now := spi_of_ike(net.gwa.swan)) and not now & first)
    wait_for("its CHILD_SA", lambda: net.gwa.swan.children("net"))
    time.sleep(0.5)
    bed.wait_taken()
    # The old SAs are deleted with packets under way.
    bed.excused |= {"XfrmInNoStates"}
    bed.survived(1, stream)
    stream = bed.stream(count=200)
    stream.wait()
    bed.perfect(stream)


def test_delete(bed):
    """A tunnel that is deleted is gone from the fast path too, and one that is negotiated again is taken."""
    net = bed.up()
    bed.start()
    bed.pings()
    # What stays are the routes, in clear.
    bed.wire.clear = lambda frame: True
    bed.excused |= {"XfrmInNoStates"}
    net.gwa.swan.terminate(ike="gw")
    wait_for("no SA in the kernel", lambda: not states(net.gwa.host))
    for gateway in bed.beside():
        wait_for("no SA in culvert", lambda g=gateway: not g.daemon.json("sa"), timeout=5)
        wait_for("no policy in culvert", lambda g=gateway: not g.daemon.json("policy"), timeout=5)
    wait_for("no SA at the peer", lambda: not states(net.gwb.host))
    bed.pings()
    net.gwa.swan.initiate("net")
    assert_ping(net.client, t.SERVER4)
    bed.wait_taken()
    stream = bed.stream(count=300)
    stream.wait()
    bed.perfect(stream)


def test_flush(bed):
    """After `ip xfrm state flush` nothing is sent in clear and culvert has no SA; charon makes new ones, which are
    taken."""
    from lab.traffic import ping

    net = bed.up()
    bed.start()
    bed.excused |= {"XfrmInNoStates", "XfrmOutNoStates", "XfrmAcquireError", "XfrmInTmplMismatch"}
    for way in ("state", "policy"):
        net.gwa.host.ip("xfrm", way, "flush")
        for gateway in bed.beside():
            what = "sa" if way == "state" else "policy"
            wait_for(f"none in culvert ({way})", lambda g=gateway, w=what: not g.daemon.json(w), timeout=5)
        if way == "state":
            assert ping(net.client, t.SERVER4, count=3)["received"] == 0
            assert ping(net.server, t.CLIENT4, count=3)["received"] == 0
        net.gwa.swan.terminate(ike="gw")
        for gateway in net.gateways():
            wait_for("no IKE_SA", lambda g=gateway: not g.swan.sas())
            gateway.host.ip("xfrm", "state", "flush")
        net.gwa.swan.initiate("net")
        bed.wait_taken()
        bed.pings(count=3)
    stream = bed.stream(count=300)
    stream.wait()
    bed.perfect(stream)
