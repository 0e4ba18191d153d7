"""Route-based set-ups: SAs with an if_id, and Linux's own XFRM interfaces."""

import json
import re
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.beside import stay
from lab.routed import ENDS4, ENDS6, NAME, SITES, add_interface, child, lead, no_clear_route, routed
from lab.traffic import Iperf, assert_ping, ping
from lab.xfrm import states

#: A second network behind gateway B, and the interface to it.
SECOND, SECOND_SITE, SECOND_HOST, SECOND_GATE = "ipsec1", "10.2.1.0/24", "10.2.1.10", "10.2.1.1"
SECOND_ID = 43


@pytest.mark.parametrize(
    "plane", [pytest.param("beside+kernel", marks=pytest.mark.sample), "beside+beside"], indirect=True
)
def test_start_and_stop_under_traffic(bed):
    """The SAs of an XFRM interface are taken over in use and given back, and no packet is lost either time."""
    routed(bed)
    streams = bed.stream(), bed.stream(t.CLIENT6, rate=100, port=7100)
    time.sleep(0.5)
    bed.crossings(*streams)
    bed.assert_counted(missing=4)


def by_if_id(host):
    """What gateway A has sent by the SAs of each if_id, in packets."""
    text = host.run("ip", "-s", "xfrm", "state").stdout
    sent = {}
    for block in re.split(r"^(?=src )", text, flags=re.M):
        if_id = re.search(r"if_id (0x[0-9a-f]+)", block)
        packets = re.search(r"(\d+)\(packets\)", block.partition("current")[2])
        if if_id and packets and block.startswith(f"src {t.WAN_A4} "):
            key = int(if_id[1], 16)
            sent[key] = sent.get(key, 0) + int(packets[1])
    return sent


def two_tunnels(bed):
    """Two CHILD_SAs for everything between the same gateways, each with an interface."""
    everything = "0.0.0.0/0,::/0"
    both = (
        f"{child()}\n }}\n second {{\n local_ts = {everything}\n remote_ts = {everything}\n"
        f" esp_proposals = aes128gcm16\n {child(SECOND_ID)}"
    )
    net = routed(bed, child_extra=both, up=False)
    for gateway in net.gateways():
        add_interface(gateway.host, SECOND, SECOND_ID)
    net.second = net.lab.host("second")
    net.lab.link(net.second, "eth0", net.gwb.host, "lan2")
    net.second.address("eth0", f"{SECOND_HOST}/24")
    net.gwb.host.address("lan2", f"{SECOND_GATE}/24")
    net.second.route("default", "via", SECOND_GATE)
    net.gwa.host.ip("route", "add", SECOND_SITE, "dev", SECOND)
    net.up()
    net.gwa.swan.initiate("second")
    assert_ping(net.client, t.SERVER4, count=2)
    assert_ping(net.client, SECOND_HOST, count=2)
    return net


def test_two_tunnels_that_routes_tell_apart(bed):
    """Two tunnels for everything between the same gateways carry what routes lead to each, and what is led from one to
    the other under traffic is not lost."""
    net = two_tunnels(bed)
    bed.start()
    assert len(states(net.gwa.host)) == 4
    first, second = bed.stream(), bed.between(net.client, net.second, SECOND_HOST, rate=250, port=7100)
    time.sleep(1.5)
    before = by_if_id(net.gwa.host)
    time.sleep(2)
    gained = {k: v - before[k] for k, v in by_if_id(net.gwa.host).items()}
    assert gained[42] > 200 and gained[43] > 200, gained
    for name in (SECOND, NAME, SECOND):
        bed.note(f"by {name}")
        lead(net.gwa, name)
        time.sleep(0.5)
    before = by_if_id(net.gwa.host)
    time.sleep(2.5)
    gained = {k: v - before[k] for k, v in by_if_id(net.gwa.host).items()}
    assert gained[42] < 20 and gained[43] > 600, gained
    bed.wait_taken()
    bed.stop()
    bed.perfect(first, second)


def test_rekey_under_traffic(bed):
    """The CHILD_SA of an XFRM interface is rekeyed from both sides under traffic, and no packet is lost."""
    net = routed(bed)
    bed.start()
    streams = bed.stream(), bed.stream(t.SERVER6, rate=200, port=7100)
    for gateway in (*net.gateways(), net.gwa):
        time.sleep(0.3)
        before = {c["spi-in"] for c in gateway.swan.children("net")}
        gateway.swan.rekey(child="net")
        wait_for("a new CHILD_SA", lambda g=gateway, b=before: {c["spi-in"] for c in g.swan.children("net")} - b)
    time.sleep(6)
    bed.wait_taken()
    bed.perfect(*streams)
    assert len(states(net.gwa.host)) == 2


def test_kill9_under_traffic(bed):
    """After `kill -9` the kernel carries on with what is routed to the interface within a second."""
    net = routed(bed)
    bed.start()
    streams = bed.stream(most=0), bed.stream(t.CLIENT4, rate=150, port=7100, most=0)
    for gateway in bed.beside():
        time.sleep(0.5)
        bed.note("kill")
        gateway.daemon.kill9()
    time.sleep(1.5)
    # The kernel goes on beyond the lease, and what was on its way comes late.
    bed.wire.may_be_late = True
    bed.excused |= {"XfrmInStateSeqError"}
    bed.survived(2, *streams)
    bed.start()
    bed.pings(count=3)
    assert net.gwa.daemon is None or net.gwa.daemon.alive()


def test_the_interface_goes_down_and_comes_back(bed):
    """When the interface goes down, away, or gets another if_id, its SAs go back to the kernel, which says so, nothing
    leaves in clear, and they are taken again when it is back."""
    net = routed(bed)
    no_other = lambda: no_clear_route(net)  # noqa: E731
    bed.excused |= {"XfrmInNoPols", "XfrmInTmplMismatch"}
    bed.start()
    a = net.gwa.host

    def back():
        for prefix in SITES["gwb"]:
            a.ip("route", "replace", prefix, "dev", NAME)

    changes = [
        (("link", "set", NAME, "down"), ("link", "set", NAME, "up"), "is down"),
        (
            ("link", "set", NAME, "type", "xfrm", "dev", "wan", "if_id", "77"),
            ("link", "set", NAME, "type", "xfrm", "dev", "wan", "if_id", "42"),
            "no XFRM interface here",
        ),
        (("link", "del", NAME), None, "no XFRM interface here"),
    ]
    for go, come, why in changes:
        bed.note(" ".join(go))
        stream = bed.stream()
        time.sleep(0.3)
        a.ip(*go)
        if go[1] == "del" or go[-1] == "down":
            no_other()
            lead(net.gwb)
        for gateway in bed.beside():
            stay(gateway, why)
        assert ping(net.client, t.SERVER4, count=2)["received"] == 0
        assert stream.finish()["there"]["received"] > 0
        if come:
            a.ip(*come)
        else:
            add_interface(a)
        a.ip("addr", "replace", f"{ENDS6['gwa']}/64", "dev", NAME, "nodad")
        a.ip("addr", "replace", f"{ENDS4['gwa']}/24", "dev", NAME)
        back()
        bed.wait_taken()
        bed.pings(count=3)
    stream = bed.stream(count=300)
    stream.wait()
    bed.perfect(stream)


def test_another_namespace(bed):
    """An interface that is moved to another network namespace leaves its SAs to the kernel, which carries on there."""
    net = routed(bed)
    bed.start()
    bed.pings(count=2)
    apart = net.lab.host("apart")
    net.gwa.host.ip("link", "set", NAME, "netns", apart.ns)
    no_clear_route(net)
    lead(net.gwb)
    for gateway in bed.beside():
        stay(gateway, "no XFRM interface here")
    apart.ip("addr", "add", f"{ENDS4['gwa']}/24", "dev", NAME)
    apart.ip("link", "set", NAME, "up")
    assert_ping(apart, ENDS4["gwb"], count=3)


def sources(host):
    """The addresses from which a host would send to what the interface leads to."""
    return {
        to: re.findall(r"src (\S+)", host.ip("route", "get", to).stdout)
        for to in (t.SERVER4, ENDS4["gwb"], t.SERVER6, ENDS6["gwb"])
    }


def test_local_and_forwarded_with_one_sa(bed):
    """Streams of the gateway's own in both families, and the client's, leave by one SA of an interface while culvert
    comes and goes, and nothing is lost."""
    net = routed(bed)
    streams = [
        bed.stream(rate=200), bed.between(net.gwa.host, net.server, t.SERVER4, rate=100, port=7200),
        bed.between(net.gwa.host, net.server, t.SERVER6, rate=100, port=7300),
    ]  # fmt: skip
    for _ in range(2):
        bed.start()
        time.sleep(1)
        bed.stop()
    bed.perfect(*streams)


def test_the_gateways_own(bed):
    """The gateway pings and speaks TCP by the interface in both families, from the addresses that Linux would take."""
    net = routed(bed)
    bed.excused |= {"XfrmOutStateModeError"}
    alone = sources(net.gwa.host)
    own = Iperf(net.gwa.host, port=5202)
    iperf = Iperf(net.server)
    for act in (bed.start, bed.stop, bed.start):
        act()
        assert sources(net.gwa.host) == alone
        for to in (t.SERVER4, ENDS4["gwb"], t.SERVER6, ENDS6["gwb"]):
            assert_ping(net.gwa.host, to, count=3)
        for to in (t.LAN_A4, t.LAN_A6, ENDS4["gwa"], ENDS6["gwa"]):
            assert_ping(net.server, to, count=3)
    assert iperf.run(net.gwa.host, t.SERVER4, total=500_000)["bytes"] > 250_000
    assert own.run(net.server, ENDS4["gwa"], total=500_000)["bytes"] > 250_000
    bed.wait_taken()
    bed.assert_ahead()


def test_a_socket_that_is_bound_to_the_interface(bed):
    """What a program receives by the interface alone comes in by it, with culvert as without, as its counters show."""
    net = routed(bed)
    bed.wire.may_be_late = True
    bed.excused |= {"XfrmInStateSeqError"}
    a = net.gwa.host

    def received():
        link = json.loads(a.ip("-json", "-s", "link", "show", NAME).stdout)[0]
        return link["stats64"]["rx"]["packets"]

    bed.start()
    # What the kernel encrypts, as it is bound, is answered; the answers arrive by the interface.
    for to in (ENDS4["gwb"], ENDS6["gwb"]):
        done = a.run("ping", "-n", "-I", NAME, "-c", "3", "-i", "0.2", "-W", "2", to, check=False)
        assert "3 received" in done.stdout, done.stdout
    for rule in ("ip", "ip6"):
        a.run("nft", "-f", "-", stdin=f"table {rule} seen {{ chain arrives {{ type filter hook input priority 0; "
              f"iifname {NAME} counter; }}; }}")  # fmt: skip
    bed.settle()
    for to in (ENDS4["gwa"], ENDS6["gwa"], t.LAN_A4, t.LAN_A6):
        assert_ping(net.server, to, count=3)
    for rule in ("ip", "ip6"):
        text = a.run("nft", "list", "table", rule, "seen").stdout
        assert int(re.search(r"packets (\d+)", text)[1]) >= 6, text
    assert received() > 0
    bed.stop()
    # The policies that let it pass are gone.
    assert "0x20000000" not in a.ip("xfrm", "policy").stdout


def test_what_stays(bed):
    """One policy without an SA keeps what is routed to its interface in the kernel, which says so with what mends it, and
    what is there is taken when that policy is gone."""
    net = routed(bed)
    a = net.gwa.host
    a.ip(
        "xfrm", "policy", "add", "src", "10.1.0.0/24", "dst", "10.99.0.0/24", "dir", "out", "priority", "9", "if_id",
        "42", "tmpl", "src", t.WAN_A4, "dst", t.WAN_B4, "proto", "esp", "reqid", "999", "mode", "tunnel",
    )  # fmt: skip
    stream = bed.stream()
    bed.start(taken=False)
    for gateway in (g for g in bed.beside() if g is net.gwa):
        # What comes in does not matter to the kernel's numbers.
        out = [spi for spi, sa in states(a).items() if sa.src == t.WAN_A4]
        stay(gateway, "asks for it, and stays with the kernel", spis=out)
        said = gateway.daemon.culvert("doctor", "--config", gateway.daemon.config, check=False).stdout
        assert "another outbound policy with its if_id" in said, said
        assert "10.2.0.0/24" not in a.ip("route", "show", "table", "219", check=False).stdout
        a.ip(
            "xfrm", "policy", "delete", "src", "10.1.0.0/24", "dst", "10.99.0.0/24", "dir", "out", "if_id", "42"
        )  # fmt: skip
        bed.wait_taken()
        assert "10.2.0.0/24" in a.ip("route", "show", "table", "219").stdout
    bed.perfect(stream)
