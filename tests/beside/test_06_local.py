"""The gateway's own packets, ICMP errors, and interfaces that culvert does not have."""

import re

from lab import topology as t
from lab.traffic import Iperf, Stream, assert_perfect, assert_ping

#: A host behind gateway A on an interface that is not one of culvert's ports.
APART4 = "10.1.0.129"


def test_ping_and_tcp(bed):
    """The gateway itself pings and speaks TCP through the tunnel in both families, beside what it forwards."""
    net = bed.up()
    # A segment that is too big for the tunnel tells its sender so.
    bed.excused |= {"XfrmOutStateModeError"}
    iperf = Iperf(net.server)
    own = Iperf(net.gwa.host, port=5202)
    for act in (bed.start, bed.stop, bed.start):
        act()
        stream = bed.stream(rate=200)
        for to, back in ((t.SERVER4, t.LAN_A4), (t.SERVER6, t.LAN_A6)):
            assert_ping(net.gwa.host, to, source=back, count=10)
            assert_ping(net.server, back, count=10)
            assert iperf.run(net.gwa.host, to, total=1_000_000)["bytes"] > 500_000
            assert own.run(net.server, back, total=1_000_000)["bytes"] > 500_000
        bed.perfect(stream)
    bed.assert_ahead()


def test_local_and_forwarded_with_one_sa(bed):
    """Streams of the gateway's own and of the client's leave by one SA at the same time while culvert comes and goes,
    in IPv4 and IPv6."""
    net = bed.up()
    streams = [
        bed.stream(rate=300), bed.stream(t.SERVER6, rate=200, port=7100),
        Stream(net.gwa.host, net.server, t.SERVER4, rate=200, port=7200),
        Stream(net.gwa.host, net.server, t.SERVER6, rate=100, port=7250),
    ]  # fmt: skip
    for _ in range(2):
        bed.start(taken=False)
        bed.settle()
        bed.settle()
        bed.stop()
    bed.perfect(*streams)


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
        Stream(apart, net.server, t.SERVER4, rate=200), Stream(net.server, apart, APART4, rate=200, port=7100),
        bed.stream(port=7200),
    ]  # fmt: skip
    for act in (bed.start, bed.stop, bed.start):
        act()
        assert_ping(apart, t.SERVER4, count=5)
        assert_ping(net.server, APART4, count=5)
    for stream in streams:
        assert_perfect(stream.finish())
    bed.assert_counted()
