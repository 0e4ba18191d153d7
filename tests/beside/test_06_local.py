"""The gateway's own packets, ICMP errors, and interfaces that culvert does not have."""

import re

from lab import topology as t
from lab.base import wait_for
from lab.traffic import Iperf, assert_perfect, assert_ping

#: The most interruptions of a stream beside IPv6 of the gateway's own, before its SA is left to the kernel.
FEW = 2

#: A host behind gateway A on an interface that is not one of culvert's ports.
APART4 = "10.1.0.129"


def test_ping_and_tcp(bed):
    """The gateway itself pings and speaks TCP through the tunnel in both families, beside what it forwards."""
    net = bed.up()
    # A segment that is too big for the tunnel tells its sender so.
    bed.excused |= {"XfrmOutStateModeError"}
    iperf = Iperf(net.server)
    own = Iperf(net.gwa.host, port=5202)

    def speak(to, back):
        assert_ping(net.gwa.host, to, source=back, count=10)
        assert_ping(net.server, back, count=10)
        assert iperf.run(net.gwa.host, to, total=1_000_000)["bytes"] > 500_000
        assert own.run(net.server, back, total=1_000_000)["bytes"] > 500_000

    # IPv6 of the gateway's own is the kernel's to encrypt, and takes the peer's window beyond the fast path's numbers.
    bed.wire.may_be_late = True
    bed.excused |= {"XfrmInStateSeqError"}
    for act in (bed.start, bed.stop, bed.start):
        act()
        stream = bed.stream(rate=200)
        speak(t.SERVER4, t.LAN_A4)
        bed.perfect(stream)
        stream = bed.stream(rate=200, most=0)
        speak(t.SERVER6, t.LAN_A6)
        bed.survived(FEW, stream)
    bed.assert_ahead()


def test_local_and_forwarded_with_one_sa(bed):
    """Streams of the gateway's own and of the client's leave by one SA at the same time while culvert comes and goes."""
    net = bed.up()
    streams = [
        bed.stream(rate=300), bed.stream(t.SERVER6, rate=200, port=7100),
        bed.between(net.gwa.host, net.server, t.SERVER4, rate=200, port=7200),
    ]  # fmt: skip
    for _ in range(2):
        bed.start()
        bed.settle()
        bed.stop()
    bed.perfect(*streams)


def test_ipv6_of_its_own_is_the_kernels(bed):
    """An SA by which the gateway itself sends IPv6 is left to the kernel, which says so, after few interruptions."""
    net = bed.up()
    bed.wire.may_be_late = True
    bed.excused |= {"XfrmInStateSeqError"}
    streams = [
        bed.stream(rate=300, most=0),
        bed.between(net.gwa.host, net.server, t.SERVER6, rate=100, port=7250, most=0),
    ]  # fmt: skip
    bed.start(taken=False)
    wait_for("the outbound SA to be left to the kernel", lambda: [
        sa for sa in net.gwa.daemon.json("sa") if "encrypts by it" in (sa.get("why") or "")
    ], timeout=20)  # fmt: skip
    bed.settle()
    bed.survived(FEW, *streams)


def far_pings(host, *words):
    """The answers of the program `ping`, which knows how to limit hops: what came from whom."""
    text = host.run("ping", "-n", "-c", "3", "-i", "0.2", "-W", "2", *words, check=False).stdout
    return sorted(set(re.findall(r"From (\S+) icmp_seq=\d+ (.*)", text)))


def test_icmp_errors(bed):
    """Time exceeded and too big, which the gateway itself reports about packets into and out of the tunnel, are the
    kernel's with culvert as without."""
    net = bed.up()

    def answers():
        for host in (net.client, net.server):
            host.ip("route", "flush", "cache")
            host.ip("-6", "route", "flush", "cache")
        # Into the tunnel at A, and out of it.
        yield "ttl 1", far_pings(net.client, "-t", "1", t.SERVER4)
        yield "hops 1", far_pings(net.client, "-6", "-t", "1", t.SERVER6)
        yield "ttl 2 from behind B", far_pings(net.server, "-t", "2", t.CLIENT4)
        yield "hops 2 from behind B", far_pings(net.server, "-6", "-t", "2", t.CLIENT6)
        yield "too big", far_pings(net.client, "-M", "do", "-s", "1472", t.SERVER4)
        yield "too big 6", far_pings(net.client, "-6", "-M", "do", "-s", "1452", t.SERVER6)
        for host, to in ((net.client, t.SERVER4), (net.client, t.SERVER6)):
            route = host.ip("route", "get", to).stdout
            yield f"MTU to {to}", re.findall(r"mtu (\d+)", route)

    alone = dict(answers())
    assert all(alone.values()), alone
    bed.start()
    assert dict(answers()) == alone
    bed.stop()
    assert dict(answers()) == alone


def test_an_interface_apart(bed):
    """A host behind an interface that is not a port of culvert's reaches the other site, and is reached."""
    net = bed.make()
    apart = net.lab.host("apart")
    net.lab.link(apart, "eth0", net.gwa.host, "lan2")
    apart.address("eth0", f"{APART4}/32")
    apart.ip("route", "add", t.LAN_A4, "dev", "eth0")
    apart.ip("route", "add", "default", "via", t.LAN_A4)
    net.gwa.host.ip("route", "add", f"{APART4}/32", "dev", "lan2")
    net.up()
    streams = [
        bed.between(apart, net.server, t.SERVER4, rate=200),
        bed.between(net.server, apart, APART4, rate=200, port=7100),
        bed.stream(port=7200),
    ]
    for act in (bed.start, bed.stop, bed.start):
        act()
        assert_ping(apart, t.SERVER4, count=5)
        assert_ping(net.server, APART4, count=5)
    for stream in streams:
        assert_perfect(stream.finish())
    bed.assert_counted()
