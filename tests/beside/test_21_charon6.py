"""strongSwan 6 beside the kernel: directions, last use of SAs, and an SA for each CPU."""

import os
import re
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.beside import SOON_S
from lab.charon6 import states6
from lab.traffic import ping
from lab.xfrm import states

PEERS = pytest.mark.parametrize("plane", ["beside6+kernel", "beside6+kernel6"], indirect=True)

PSK = {"remote_b": t.WAN_A4}


def rekey(net):
    before = {c["spi-in"] for c in net.gwa.swan.children("net")}
    net.gwa.swan.rekey(child="net")
    wait_for("a new CHILD_SA", lambda: {c["spi-in"] for c in net.gwa.swan.children("net")} - before)


@PEERS
def test_take_over(bed):
    """A tunnel of strongSwan 6's is taken over and given back under traffic, and no packet is lost."""
    net = bed.up(**PSK)
    text = states6(net.gwa)
    assert not has_directions() or all("dir " in s for s in text), text
    streams = bed.stream(), bed.stream(t.CLIENT6, rate=100, port=7100)
    bed.crossings(*streams, moved=300)
    bed.assert_counted()


@PEERS
def test_rekey_under_traffic(bed):
    """strongSwan 6 rekeys CHILD_SA and IKE_SA under traffic, and no packet is lost."""
    net = bed.up(**PSK)
    bed.start()
    streams = bed.stream(rate=300), bed.stream(t.CLIENT6, rate=150, port=7100)
    for _ in range(3):
        rekey(net)
        time.sleep(0.3)
    first = {sa["initiator-spi"] for _, sa in net.gwa.swan.sas()}
    net.gwa.swan.rekey(ike="gw")
    wait_for("a new IKE_SA", lambda: {sa["initiator-spi"] for _, sa in net.gwa.swan.sas()} - first)
    # The old inbound SA stays some seconds for packets that are late: outlive it.
    time.sleep(6)
    bed.wait_taken()
    bed.perfect(*streams)
    bed.assert_counted()
    assert len(states(net.gwa.host)) == 2


@PEERS
def test_delete(bed):
    """What strongSwan 6 deletes is gone from the fast path too, and what it negotiates again is taken."""
    net = bed.up(**PSK)
    bed.start()
    bed.pings(count=2)
    # What stays are the routes, in clear.
    bed.wire.clear = lambda frame: True
    bed.excused |= {"XfrmInNoStates"}
    net.gwa.swan.terminate(ike="gw")
    for gateway in net.gateways():
        wait_for("no SA", lambda g=gateway: not states(g.host))
    for gateway in bed.beside():
        wait_for("no SA in culvert", lambda g=gateway: not g.daemon.json("sa"), timeout=5)
        wait_for("no policy in culvert", lambda g=gateway: not g.daemon.json("policy"), timeout=5)
    bed.pings(count=2)
    net.gwa.swan.initiate("net")
    bed.wait_taken()
    stream = bed.stream(count=300)
    stream.wait()
    bed.perfect(stream)


def has_directions():
    """Whether this kernel has directions of SAs and SAs for CPUs (6.10, 6.13)."""
    return tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 13)


def outbound(gateway):
    """The packets that the kernel's outbound SAs have carried: (of CPUs, of the one for all)."""
    cpu = {int(re.search(r"spi (0x[0-9a-f]+)", s)[1], 16) for s in states6(gateway) if "pcpu-num" in s}
    out = [sa for sa in states(gateway.host).values() if sa.src == t.WAN_A4]
    of_cpus = [sa.packets for sa in out if sa.spi in cpu]
    return of_cpus, sum(sa.packets for sa in out) - sum(of_cpus)


@pytest.mark.parametrize("plane", ["beside6+kernel6"], indirect=True)
def test_an_sa_for_each_cpu(bed):
    """With `per_cpu_sas` the kernel gets an SA of its CPU beside the one for all; both are taken over, the CPU's is
    used by the worker of that number, and both are given back, and no packet is lost."""
    if not has_directions():
        pytest.skip("before 6.13 Linux has no SAs for CPUs")
    net = bed.make(start_action="trap", extra_child="per_cpu_sas = yes", **PSK).start()
    # Linux drops what it forwards while it waits for a CPU's SA, although there is one for all.
    bed.excused |= {"XfrmOutNoStates", "XfrmOutPolError"}

    def has_own():
        return ping(net.client, t.SERVER4, count=5, interval=0.1)["received"] == 5 and outbound(net.gwa)[0]

    wait_for("an SA of a CPU", has_own)
    streams = bed.stream(), bed.stream(t.CLIENT6, rate=100, port=7100)
    for _ in range(2):
        bed.start()
        before, (of_cpus, for_all) = bed.transmitted(), outbound(net.gwa)
        time.sleep(1)
        assert bed.transmitted() - before > 300 or not bed.beside()
        bed.assert_ahead()
        # By then the kernel has been told.
        time.sleep(SOON_S + 0.2)
        now_of_cpus, now_for_all = outbound(net.gwa)
        assert sum(now_of_cpus) > sum(of_cpus) and now_for_all == for_all, (of_cpus, now_of_cpus, for_all, now_for_all)
        bed.stop()
        time.sleep(0.3)
    bed.perfect(*streams)
    bed.assert_counted()
