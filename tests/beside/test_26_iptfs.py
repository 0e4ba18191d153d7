"""IP-TFS (RFC 9347) between strongSwan 6's, which negotiate USE_AGGFRAG: culvert with the kernel of the guest, and with itself.

The plane without culvert says that the bed is right, and what Linux 7.2 itself loses: payloads with pieces of several packets
(`XfrmInError`), and what overtakes one another.
"""

import os
import re
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.beside import stay
from lab.charon6 import states6
from lab.traffic import Iperf, ping

PLANES = ["kernel6+kernel6", "culvert6+kernel6", "kernel6+culvert6", "culvert6+culvert6"]
PEERS = pytest.mark.parametrize("plane", PLANES, indirect=True)
#: Where Linux with itself fails now and then.
WITH_CULVERT = pytest.mark.parametrize("plane", PLANES[1:], indirect=True)

IPTFS = {"mode": "iptfs", "remote_b": t.WAN_A4}

#: iproute2 7.2 has no word for the mode.
IS_IPTFS = re.compile(r"mode (5|iptfs)\b")

#: What Linux counts of payloads that it cannot take apart.
LINUX_S = {"XfrmInError", "XfrmInBufferError"}
#: What it counts beside that of payloads of Linux's own.
LINUX_WITH_ITSELF = {"XfrmInHdrError"}
#: What a lossy wire may have it count.
LOST = {"XfrmInIptfsError"}


@pytest.fixture(autouse=True)
def _newest(culvert_is_off, request):
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 14):
        pytest.skip("before 6.14 Linux has no IP-TFS")
    if culvert_is_off and "culvert" in request.node.callspec.params["plane"]:
        pytest.skip("it is of culvert")


def has_linux(net):
    """Whether one of the gateways is Linux's own ESP."""
    return not all(gateway.daemon for gateway in net.gateways())


def up(bed, **values):
    """A tunnel of the mode between both gateways."""
    net = bed.up(**{**IPTFS, **values})
    if has_linux(net):
        bed.excused |= LINUX_S
    if not any(gateway.daemon for gateway in net.gateways()):
        bed.excused |= LINUX_WITH_ITSELF
    for gateway in net.gateways():
        shown = states6(gateway)
        assert len(shown) == 2 and all(IS_IPTFS.search(text) for text in shown), shown
    return net


def netem(bed, net, *how):
    """Has the wire lose and delay what goes either way, which may then come late."""
    bed.wire.may_be_late = True
    for dev in ("west", "east"):
        net.mid.run("tc", "qdisc", "replace", "dev", dev, "root", "netem", *how)


def tcp(net, seconds=1.5, **how):
    """Bits a second of TCP from the client to the server."""
    iperf = Iperf(net.server)
    try:
        return iperf.run(net.client, t.SERVER4, seconds=seconds, **how)["bits_per_second"]
    finally:
        iperf.stop()


def assert_answered(bed, near, to, size, count=2, least=None):
    """Pings of this size are answered, at least so many of them."""
    result = ping(near, to, count=count, size=size, interval=0.02, wait=5)
    got = result["received"]
    assert got >= (count if least is None else least) and not result["duplicates"], (size, to, result, bed.refused())


@PEERS
def test_traffic(bed):
    """Pings of all sizes, small datagrams and TCP pass in both directions."""
    net = up(bed)
    bed.pings(count=3)
    # Linux loses longer ones, which come as several fragments at once.
    longer = () if has_linux(net) else (4000, 20000)
    for size in (0, 56, 1300, 1390, 1400, 1452, *longer):
        for near, to in ((net.client, t.SERVER4), (net.server, t.CLIENT6)):
            assert_answered(bed, near, to, size)
    stream = bed.stream(size=36, rate=1000, count=1500)
    stream.wait()
    bed.perfect(stream)
    rates = tcp(net), tcp(net, reverse=True)
    assert min(rates) > 1e6, (rates, bed.refused())


@PEERS
def test_a_wire_that_loses(bed):
    """A wire that loses and reorders costs about the packets that were lost, and TCP goes on."""
    bed.excused |= LOST
    net = up(bed)
    netem(bed, net, "delay", "4ms", "3ms", "loss", "2%")
    assert_answered(bed, net.client, t.SERVER4, 1400, count=100, least=70)
    assert tcp(net, seconds=3) > 5e4, bed.refused()
    netem(bed, net, "delay", "0ms")
    assert_answered(bed, net.client, t.SERVER4, 1400, count=20)


@PEERS
def test_what_overtakes(bed):
    """What only overtakes one another within the window is put in order, and nothing is lost."""
    net = up(bed, extra_charon="iptfs { reorder_window = 64 }", extra_child="replay_window = 64")
    netem(bed, net, "delay", "5ms", "reorder", "75%", "gap", "3")
    stream = bed.stream(size=1000, rate=300, count=600)
    stream.wait()
    if not has_linux(net):
        bed.perfect(stream)
        return
    bed.excused |= LOST
    report = stream.finish()
    assert report["back"]["received"] > 400, (report, bed.refused())


@WITH_CULVERT
def test_mtu(bed):
    """With a smaller MTU between the gateways packets are spread over more payloads."""
    net = up(bed)
    for mtu in (1400, 1280, 1500):
        for gateway in net.gateways():
            gateway.host.ip("link", "set", "dev", "wan", "mtu", mtu)
        time.sleep(0.3)
        # Linux tells the sender of the first packet that it is too long.
        least = 2 if has_linux(net) else 3
        for size in (56, 1200, 1452):
            assert_answered(bed, net.client, t.SERVER4, size, count=3, least=least)
            assert_answered(bed, net.server, t.CLIENT4, size, count=3, least=least)


@pytest.mark.parametrize("plane", ["beside6+kernel6"], indirect=True)
def test_the_kernel_s_stay_with_it(bed):
    """SAs and policies of the mode that a kernel has stay with it when culvert comes and goes, and say why."""
    net = up(bed)
    stream = bed.stream(size=1400, rate=150)
    bed.start(taken=False)
    if net.gwa.daemon:
        stay(net.gwa, "IP-TFS mode")
        whys = [policy.get("why", "") for policy in net.gwa.daemon.json("policy") if policy["direction"] == "out"]
        assert whys and all("IP-TFS mode" in why for why in whys), whys
    bed.pings(count=3)
    bed.stop()
    bed.perfect(stream)


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


#: 200 packets of 500 bytes a second.
RATE = "[[iptfs]]\nrate_kbit_s = 800\n"
SETTINGS = {
    "even": RATE,
    # The header of sub-type 1, to an end that answers none.
    "reports": RATE + "breaker_loss_percent = 99\nbreaker_after_s = 3600\n",
    "follows": RATE + "congestion_control = true\nleast_kbit_s = 40\n",
}
SIZE = "iptfs { packet_size = 466 }"


def now(gateway, key="bits-per-second"):
    """A gauge of the SA by which a gateway sends at a constant rate."""
    return max(sa["iptfs_now"].get(key, 0) for sa in gateway.daemon.json("sa"))


def sent(gateway):
    """Packets, and among them those of padding, that a gateway has sent by its SA."""
    rows = [sa for sa in gateway.daemon.json("sa") if sa["iptfs_now"].get("bits-per-second")]
    return sum(sa["packets"] for sa in rows), sum(sa["iptfs"]["padding-payloads"] for sa in rows)


@pytest.mark.parametrize(
    "plane,settings",
    [("culvert6+kernel6", "even"), ("culvert6+kernel6", "reports"), ("culvert6+culvert6", "follows")],
    indirect=["plane"],
)
def test_constant_rate(bed, settings):
    """Packets of one size leave evenly whether there is something to send or not, Linux takes them, and a rate follows losses."""
    net = bed.make(**IPTFS, extra_charon=SIZE)
    for gateway in net.gateways():
        if gateway.daemon:
            gateway.daemon.settings = SETTINGS[settings]
            gateway.daemon.write_config()
    net.up()
    if has_linux(net):
        bed.excused |= LINUX_S
    assert_answered(bed, net.client, t.SERVER4, 56)
    wait_for("the whole rate", lambda: now(net.gwa) == 800_000, timeout=30)
    before, began = sent(net.gwa), time.monotonic()
    time.sleep(2)
    packets, padding = (after - earlier for after, earlier in zip(sent(net.gwa), before, strict=True))
    rate = packets / (time.monotonic() - began)
    assert 150 < rate < 220 and padding == packets, (rate, packets, padding)
    for size in (0, 300, 420):
        for near, to in ((net.client, t.SERVER4), (net.server, t.CLIENT6)):
            assert_answered(bed, near, to, size)
    if settings == "follows":
        bed.excused |= LOST
        netem(bed, net, "loss", "20%")
        wait_for("a slower rate", lambda: now(net.gwa) < 400_000, timeout=20)
        assert now(net.gwa) >= 40_000 and now(net.gwa, "lost-ppm") > 0 and now(net.gwa, "rtt-us") > 0
