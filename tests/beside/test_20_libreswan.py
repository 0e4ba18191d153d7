"""libreswan's pluto as the IKE daemon beside the kernel."""

import re

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.beside import is_fast, reason
from lab.pluto import SECRETS, Pluto, missing
from lab.traffic import assert_ping, ping
from lab.xfrm import states, statistics

NETS = {"ts_a": "10.1.0.0/24", "ts_b": "10.2.0.0/24", "remote_b": t.WAN_A4}

#: What pluto has done by default when a tunnel comes up and goes.
UPDOWN = '"/usr/libexec/ipsec/_updown"'


@pytest.fixture
def pluto_on(bed, request):
    """Makes the network with pluto on some gateways, and strongSwan on the others: `pluto_on("gwa")`."""
    if missing():
        pytest.skip(f"libreswan: {missing()}")

    def make(*names, updown="%disabled", more=""):
        net = bed.make(**NETS)
        conf = (request.path.parent / "net.ipsec.conf").read_text()
        conf = conf.replace("@updown@", updown).replace("@more@", more)
        plutos = []
        for gateway in net.gateways():
            if gateway.host.name in names:
                plutos.append(Pluto(gateway.host))
                plutos[-1].configure(conf, SECRETS)
                plutos[-1].start("net")
            else:
                gateway.swan.start()
        return net, *plutos

    return make


def pings(net, count=5):
    assert_ping(net.client, t.SERVER4, count=count)
    assert_ping(net.server, t.CLIENT4, count=count)


@pytest.mark.parametrize("peer", ["strongSwan", "libreswan"])
def test_take_over(bed, pluto_on, peer):
    """pluto's tunnel is taken over and given back under traffic, and no packet is lost."""
    net, pluto, *_ = pluto_on("gwa", *(["gwb"] if peer == "libreswan" else []), updown=UPDOWN)
    pluto.initiate("net")
    pings(net)
    streams = bed.stream(), bed.stream(t.CLIENT4, rate=150, port=7100)
    bed.crossings(*streams, moved=300)
    bed.assert_counted()


def rekey(net, pluto):
    before = set(states(net.gwa.host))
    pluto.whack("--rekey-ipsec", "--name", "net", "--asynchronous")
    wait_for("new SAs", lambda: len(set(states(net.gwa.host)) - before) == 2)
    # strongSwan keeps its old inbound SA for packets that are late.
    for gateway in net.gateways():
        wait_for("the end of the old SAs", lambda g=gateway: not set(states(g.host)) & before)


#: Of /proc/net/xfrm_stat: packets of an SPI that is not there any more, and of one that is not there yet.
UNKNOWN = ("XfrmInNoStates", "XfrmAcquireError")


def assert_unknown_alone_is_lost(bed, *streams):
    """pluto deletes its old inbound SA as soon as it has sent that it will, and one that answers uses the new SA as
    soon as it has sent its answer. So what comes before the other has read that finds no SA; nothing else is
    missing."""
    counted = sum(statistics(g.host)[name] for g in bed.net.gateways() for name in UNKNOWN)
    counted += sum(g.daemon.drops().get("in-no-state", 0) for g in bed.beside())
    reports = [stream.finish() for stream in streams]
    # An answer is missing with what it would have answered.
    lost = sum(report["back"]["lost"] for report in reports)
    losses = [loss for stream, report in zip(streams, reports) for loss in bed.losses(stream, report)]
    assert lost == counted, (counted, losses)
    for stream, report in zip(streams, reports):
        for way in ("there", "back"):
            assert report[way]["duplicated"] == 0, report
            # As long as the other's work on the message takes.
            assert report[way]["longest_gap"] <= stream.rate / 5, losses
    bed.excused |= {"XfrmInNoStates"}
    bed.assert_counted(missing=2 + counted)


@pytest.mark.parametrize("peer", ["strongSwan", "libreswan"])
def test_rekey_under_traffic(bed, pluto_on, peer):
    """pluto rekeys its CHILD_SA under traffic five times, and nothing is lost but what comes by an SA that the
    receiver has deleted, or not yet made."""
    net, pluto, *_ = pluto_on("gwa", *(["gwb"] if peer == "libreswan" else []))
    pluto.initiate("net")
    bed.start()
    streams = bed.stream(rate=300), bed.stream(t.CLIENT4, rate=150, port=7100)
    for number in range(5):
        bed.note(f"rekey {number}")
        rekey(net, pluto)
    bed.wait_taken()
    assert_unknown_alone_is_lost(bed, *streams)


def policies(host):
    """The kernel's policies about the two sites, as text."""
    text = host.run("ip", "xfrm", "policy", "list", "nosock").stdout
    return [p for p in re.split(r"^(?=src )", text, flags=re.M) if "10.2.0.0/24" in p]


def test_delete(bed, pluto_on):
    """What pluto deletes is gone from the fast path too, and what it negotiates again is taken."""
    net, pluto = pluto_on("gwa")
    pluto.initiate("net")
    bed.start()
    pings(net)
    # What stays are the routes, in clear.
    bed.wire.clear = lambda frame: True
    bed.excused |= {"XfrmInNoStates"}
    pluto.whack("--terminate", "--name", "net")
    # A trap stays.
    pluto.whack("--unroute", "--name", "net")
    for gateway in net.gateways():
        wait_for("no SA", lambda g=gateway: not states(g.host))
        wait_for("no policy", lambda g=gateway: not policies(g.host))
    for gateway in bed.beside():
        wait_for("no SA in culvert", lambda g=gateway: not g.daemon.json("sa"), timeout=5)
    pings(net)
    pluto.initiate("net")
    bed.wait_taken()
    stream = bed.stream(count=300)
    stream.wait()
    bed.perfect(stream)


def test_trap(bed, pluto_on):
    """pluto's trap policy makes the kernel ask, pluto negotiates, and the tunnel is taken; deleted, it traps again."""
    net, pluto = pluto_on("gwa")
    pluto.whack("--route", "--name", "net")
    bed.start(taken=False)
    bed.excused |= {"XfrmOutNoStates", "XfrmInNoStates"}
    wait_for("an answer", lambda: ping(net.client, t.SERVER4, count=1)["received"])
    bed.wait_taken()
    pings(net)
    bed.assert_counted()
    pluto.whack("--terminate", "--name", "net")
    for gateway in net.gateways():
        wait_for("no SA", lambda g=gateway: not states(g.host))
    assert "dir out" in "".join(policies(net.gwa.host))
    # Nothing goes in clear: the wire is judged at the end. The kernel may not ask again before its last question has
    # expired, after 30 s.
    ping(net.client, t.SERVER4, count=3)


def test_an_interface_of_its_own(bed, pluto_on):
    """A tunnel by an XFRM interface that pluto makes (ipsec-interface), whose SAs set a mark, stays with the kernel,
    which carries it, and `culvert sa` says why."""
    net, pluto = pluto_on("gwa", updown=UPDOWN, more="ipsec-interface=yes")
    pluto.initiate("net")
    for act in (lambda: None, lambda: bed.start(taken=False), bed.stop):
        act()
        pings(net)
        for gateway in bed.beside():
            if gateway.daemon.alive():
                for spi in states(gateway.host):
                    sa = bed.placement(gateway, spi)
                    assert not is_fast(sa) and "sets a mark" in reason(sa), sa
