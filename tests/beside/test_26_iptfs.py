"""IP-TFS (RFC 9347) between strongSwan 6's, which negotiate USE_AGGFRAG: the kernel's, and culvert's with it.

The planes without culvert say that the bed is right.
"""

import os
import re
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.charon6 import states6
from lab.traffic import Iperf, assert_ping, ping
from lab.xfrm import errors

PEERS = pytest.mark.parametrize("plane", ["kernel6+kernel6"], indirect=True)

IPTFS = {"mode": "iptfs", "remote_b": t.WAN_A4}

#: iproute2 7.2 has no word for the mode.
IS_IPTFS = re.compile(r"mode (5|iptfs)\b")

#: What a lossy wire may have the receiver count.
LOST = {"XfrmInIptfsError"}


@pytest.fixture(autouse=True)
def _newest():
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 14):
        pytest.skip("before 6.14 Linux has no IP-TFS")


def up(bed, **values):
    """A tunnel of the mode between both gateways."""
    net = bed.up(**{**IPTFS, **values})
    for gateway in net.gateways():
        shown = states6(gateway)
        assert len(shown) == 2 and all(IS_IPTFS.search(text) for text in shown), shown
    return net


def netem(net, *how):
    """Has the wire lose and delay what goes either way."""
    for dev in ("west", "east"):
        net.mid.run("tc", "qdisc", "replace", "dev", dev, "root", "netem", *how)


def tcp(net, seconds=1.5, **how):
    """Bits a second of TCP from the client to the server."""
    iperf = Iperf(net.server)
    try:
        return iperf.run(net.client, t.SERVER4, seconds=seconds, **how)["bits_per_second"]
    finally:
        iperf.stop()


@PEERS
def test_traffic(bed):
    """Pings of all sizes, small datagrams and TCP pass in both directions."""
    net = up(bed)
    bed.pings(count=3)
    for size in (0, 56, 1300, 1390, 1400, 1472, 4000, 20000):
        for near, to in ((net.client, t.SERVER4), (net.server, t.CLIENT6)):
            assert_ping(near, to, count=2, size=size, interval=0.02)
    stream = bed.stream(size=36, rate=1000, count=1500)
    stream.wait()
    bed.perfect(stream)
    rates = tcp(net), tcp(net, reverse=True)
    assert min(rates) > 1e6, rates


@PEERS
def test_loss_and_reordering(bed):
    """A wire that loses and reorders costs the packets that were lost, and TCP goes on."""
    bed.excused |= LOST
    net = up(bed)
    netem(net, "delay", "4ms", "3ms", "loss", "2%")
    result = ping(net.client, t.SERVER4, count=100, interval=0.02, size=1400)
    assert 70 < result["received"] <= 100, result
    assert tcp(net, seconds=3) > 2e5
    netem(net, "delay", "0ms")
    assert_ping(net.client, t.SERVER4, count=20, interval=0.02, size=1400)


@PEERS
def test_reordering_alone_loses_nothing(bed):
    """What only overtakes one another within the window is put in order, and nothing is lost."""
    net = up(bed)
    netem(net, "delay", "5ms", "reorder", "75%", "gap", "3")
    stream = bed.stream(size=1000, rate=300, count=600)
    stream.wait()
    bed.perfect(stream)


@PEERS
def test_mtu(bed):
    """With a smaller MTU between the gateways packets are spread over more payloads, and none is too big."""
    net = up(bed)
    for mtu in (1400, 1280, 1500):
        for gateway in net.gateways():
            gateway.host.ip("link", "set", "dev", "wan", "mtu", mtu)
        for size in (56, 1200, 1472):
            assert_ping(net.client, t.SERVER4, count=2, size=size, interval=0.02)
            assert_ping(net.server, t.CLIENT4, count=2, size=size, interval=0.02)


@PEERS
def test_rekey_under_traffic(bed):
    """The CHILD_SA is rekeyed three times under traffic, and no packet is lost."""
    net = up(bed)
    streams = bed.stream(rate=300), bed.stream(t.CLIENT6, rate=150, port=7100)
    for _ in range(3):
        before = {c["spi-in"] for c in net.gwa.swan.children("net")}
        net.gwa.swan.rekey(child="net")
        wait_for("a new CHILD_SA", lambda b=before: {c["spi-in"] for c in net.gwa.swan.children("net")} - b)
        time.sleep(0.4)
    # The old inbound SA stays some seconds for packets that are late: outlive it.
    time.sleep(6)
    bed.perfect(*streams)
