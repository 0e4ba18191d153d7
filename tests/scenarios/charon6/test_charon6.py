"""What strongSwan 6 asks of XFRM that 5.9 does not; skipped where it is not unpacked (make charon6)."""

import os
import re
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.charon6 import argv6, states6 as states
from lab.traffic import Stream, assert_perfect, assert_ping, ping


@pytest.mark.parametrize(
    "plane", ["culvert6", "culvert6+culvert", "culvert+culvert6", "culvert6+libipsec"], indirect=True
)
def test_negotiates_with_itself_and_others(network, plane):
    encap = "yes" if "libipsec" in plane else "no"
    net = network(encap=encap, remote_b=t.WAN_A4).up()
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.server, t.CLIENT6, count=10)
    net.gwa.swan.rekey(child="net")
    wait_for("the new child", lambda: net.gwa.swan.children("net")[-1]["uniqueid"] != "1")
    assert_ping(net.client, t.SERVER4, count=10)
    assert_only_protected(wire.stop())


@pytest.mark.parametrize("plane", ["culvert6+kernel6"], indirect=True)
def test_negotiates_with_linux(network, plane):
    """In a guest, whose kernel does the ESP of gateway B (make kernel VERSION=7.2), per CPU too."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 13):
        pytest.skip("before 6.13 Linux has no SAs for CPUs")
    net = per_cpu(network).start()

    def has_own():
        # Linux drops what it forwards while it waits for a CPU's SA, although there is one for all.
        before = sum(own(net.gwa).values())
        answered = ping(net.client, t.SERVER4, count=5, interval=0.1)["received"]
        return answered == 5 and sum(own(net.gwa).values()) >= before + 5

    wait_for("traffic by SAs of the workers' own", has_own)
    assert_ping(net.client, t.SERVER4, count=20, interval=0.05)
    assert_ping(net.server, t.CLIENT6, count=20, interval=0.05)
    assert all("dir " in s for s in states(net.gwb)), states(net.gwb)
    assert any("pcpu-num" in s for s in states(net.gwb)), states(net.gwb)


@pytest.mark.parametrize("esp", ["aes128gcm16", "aes128gcm16-esn"])
def test_sas_have_directions(network, esp):
    net = network(esp=esp, remote_b=t.WAN_A4).up()
    for gateway, here in ((net.gwa, t.WAN_A4), (net.gwb, t.WAN_B4)):
        found = {("dir out" in s, "dir in" in s, s.startswith(f"src {here}")) for s in states(gateway)}
        assert found == {(True, False, True), (False, True, False)}, states(gateway)
    assert_ping(net.client, t.SERVER4, count=5)


def test_payloads_of_several_packets(network):
    """With `mode = iptfs` large packets are spread over payloads (RFC 9347), and no ICMP error says that they are too long."""
    net = network(mode="iptfs", remote_b=t.WAN_A4).up()
    assert all(re.search(r"mode (5|iptfs)\b", s) for s in states(net.gwa)), states(net.gwa)
    wire = Capture(net.mid, "west")
    for size in (0, 1472, 20000):
        assert_ping(net.client, t.SERVER4, count=2, size=size)
    assert_ping(net.server, t.CLIENT6, count=2, size=1452)
    assert_only_protected(wire.stop())
    for sa in net.gwa.daemon.json("sa"):
        packed = sa["iptfs"]
        assert sa["mode"] == "iptfs" and packed["packets"] == 2 * (1 + 1 + 14 + 1), sa
        assert 0 < packed["spread-packets"] <= packed["packets"] < packed["payloads"] + packed["spread-packets"], sa
        assert not packed["dropped-packets"] + packed["padding-payloads"], sa
    assert "IP-TFS:" in net.gwa.daemon.culvert("sa").stdout
    assert 'counter="spread-packets"' in net.gwa.daemon.culvert("metrics").stdout


def test_an_old_kernel_is_no_hindrance(network):
    """The kernel says that it is an old one; charon hears of the databases'."""
    net = network(remote_b=t.WAN_A4)
    for gateway in net.gateways():
        gateway.swan.wrap += ["setarch", "--uname-2.6"]
    net.up()
    assert all("dir " in s for s in states(net.gwa)), states(net.gwa)
    assert "culvert-on-2.6" in net.gwa.swan.swanctl("--version", "--daemon").stdout
    assert_ping(net.client, t.SERVER4, count=5)


def test_last_use_is_the_sa_s(network):
    """charon 6 asks the SA, not the policy, when it was used."""
    net = network(extra_child="inactivity = 6s", remote_b=t.WAN_A4).up()
    for _ in range(5):
        assert_ping(net.client, t.SERVER4, count=2)
        time.sleep(2)
    assert net.gwa.swan.children("net"), "it was in use all the time"
    wait_for("its end", lambda: not net.gwa.swan.children("net"))


QUEUES = 2


def per_cpu(network, kind="yes", **values):
    """Both gateways with two workers, and a trap that has SAs of each."""
    net = network(
        build={"queues": QUEUES}, start_action="trap", remote_b=t.WAN_A4,
        extra_child=f"per_cpu_sas = {kind}", **values,
    )  # fmt: skip
    for gateway in (g for g in net.gateways() if g.daemon):
        text = gateway.daemon.config.read_text()
        gateway.daemon.write_config(f"{text}\n[worker]\ncpus = {QUEUES}\n")
    return net


def flows(net, count, base=7000):
    """Many flows, so that both workers of each gateway get some: each is there and back."""
    return [
        Stream(net.client, net.server, t.SERVER4, rate=100, count=count, port=base + 10 * n)
        for n in range(8)
    ]


def own(gateway):
    """The packets that each worker's own SAs have carried, by worker."""
    packets = {}
    for sa in gateway.daemon.json("sa"):
        if sa["cpu"] is not None:
            packets[sa["cpu"]] = packets.get(sa["cpu"], 0) + sa["packets"]
    return packets


def with_own_sas(net):
    """Traffic until each worker of each gateway has an SA of its own."""
    net.start()
    assert_ping(net.client, t.SERVER4, count=5)

    def all_there():
        for stream in flows(net, count=20, base=6000):
            stream.wait()
            stream.finish()
        return all({0, 1} <= own(gateway).keys() for gateway in net.gateways())

    wait_for("SAs of both workers on both gateways", all_there)


def handed_over(gateway):
    return gateway.daemon.stats()["handed_over"]


def assert_each_worker_uses_its_own(net):
    """Traffic of many flows goes by both own SAs of each side, in order, and by those alone."""
    before = [(own(g), handed_over(g)) for g in net.gateways()]
    shared = [fallback(g) for g in net.gateways()]
    streams = flows(net, count=300)
    for stream in streams:
        stream.wait()
    for stream in streams:
        report = stream.finish()
        assert_perfect(report)
        assert report["there"]["reordered"] == report["back"]["reordered"] == 0, report
    for gateway, (packets, _), used in zip(net.gateways(), before, shared):
        now = own(gateway)
        more = {cpu: now[cpu] - packets.get(cpu, 0) for cpu in now}
        assert more[0] > 200 and more[1] > 200, more
        assert fallback(gateway) == used, "nothing goes by the SA that is for all"


def fallback(gateway):
    """Packets that have left by SAs for all."""
    return sum(
        sa["packets"]
        for sa in gateway.daemon.json("sa")
        if sa["cpu"] is None and sa["src"] == gateway_address(gateway)
    )


def gateway_address(gateway):
    return t.WAN_A4 if gateway.host.name == "gwa" else t.WAN_B4


def test_each_worker_has_an_sa_of_its_own(network):
    net = per_cpu(network)
    wire = Capture(net.mid, "west")
    with_own_sas(net)
    children = net.gwa.swan.children("net")
    assert all(child["per-cpu-sas"] == "yes" for child in children), children
    assert {child.get("cpu") for child in children} >= {None, "0", "1"}, children
    assert any("pcpu-num 1" in s and "dir out" in s for s in states(net.gwa)), states(net.gwa)
    assert_each_worker_uses_its_own(net)
    for gateway in net.gateways():
        assert gateway.daemon.drops().get("in-replay-old", 0) == 0
    assert_only_protected(wire.stop())


def test_each_has_its_own_ports_in_udp(network):
    """`encap`: each SA has a source port of its own, by which receivers spread what comes."""
    net = per_cpu(network, kind="encap", encap="yes")
    wire = Capture(net.mid, "west")
    with_own_sas(net)
    assert_each_worker_uses_its_own(net)
    frames = wire.stop()
    assert_only_protected(frames)
    ports = {f.ports for f in frames if f.is_esp}
    assert len({source for source, _ in ports}) >= 4, ports
    assert {destination for _, destination in ports} == {4500}, ports


def test_own_sas_are_rekeyed(network):
    net = per_cpu(network)
    with_own_sas(net)
    ids = {child["uniqueid"] for child in net.gwa.swan.children("net")}
    stream = Stream(net.client, net.server, t.SERVER4, rate=200, count=1200, port=6900)
    net.gwa.swan.rekey(child="net")

    def all_new():
        now = {child["uniqueid"] for child in net.gwa.swan.children("net")}
        return now and not (now & ids)

    wait_for("new SAs in the place of all", all_new)
    stream.wait()
    assert_perfect(stream.finish())
    assert {0, 1} <= own(net.gwa).keys()
    assert_each_worker_uses_its_own(net)


def test_iproute2_says_and_hears_it(network):
    """The iproute2 of that root knows directions and CPUs, and prints why something is refused."""
    net = network()
    net.gwa.daemon.start()

    def ip(*args, check=True):
        wrap = net.gwa.swan.wrap
        return net.gwa.host.run(*wrap, *argv6("ip", "xfrm", "state", *args), check=check)

    def add(spi, *more, check=True):
        key = "0x" + "11" * 20
        return ip(
            "add", "src", t.WAN_A4, "dst", t.WAN_B4, "proto", "esp", "spi", spi, "mode", "tunnel",
            "aead", "rfc4106(gcm(aes))", key, "128", *more, check=check,
        )  # fmt: skip

    for more, word in (
        (("dir", "out", "replay-window", "32"), "no replay window"),
        (("dir", "out", "flag", "decap-dscp"), "decap-dscp"),
        (("dir", "in", "flag", "nopmtudisc"), "nopmtudisc"),
        (("dir", "in", "extra-flag", "oseq-may-wrap"), "oseq-may-wrap"),
        (("pcpu-num", "1"), "needs a direction"),
        (("dir", "out", "pcpu-num", "100000"), "beyond"),
    ):
        done = add("0x100", *more, check=False)
        assert done.returncode != 0 and word in done.stderr, (more, done.stderr)
    assert ip("list").stdout == ""
    add("0x101", "dir", "out", "pcpu-num", "1")
    add("0x102", "dir", "in", "replay-window", "32", "flag", "icmp")
    shown = ip("list").stdout
    assert re.search(r"spi 0x0*101[^S]*dir out[^S]*pcpu-num 1|pcpu-num 1[^S]*dir out", shown), shown
    assert "dir in" in shown and "flag icmp" in shown and "1111" in shown, shown
    hidden = ip("list", "nokeys").stdout
    assert "1111" not in hidden and "dir in" in hidden, hidden
    assert {sa["cpu"] for sa in net.gwa.daemon.json("sa")} == {None, 1}
