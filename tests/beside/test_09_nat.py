"""UDP encapsulation, NAT mappings that change, and addresses that move (MOBIKE)."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import kinds
from lab.nat import VALUES, rebind
from lab.traffic import assert_perfect, assert_ping
from lab.xfrm import states

#: What a gateway goes on with.
OTHER_A4, OTHER_B4 = "192.0.2.11", "192.0.2.22"


def test_encapsulation(bed):
    """ESP in UDP is taken over and given back under traffic, and no packet is lost."""
    bed.up(encap="yes")
    streams = bed.stream(), bed.stream(t.CLIENT4, rate=200, port=7100)
    for _ in range(2):
        bed.start()
        bed.settle()
        bed.stop()
        bed.settle()
    bed.start()
    bed.perfect(*streams)
    bed.assert_counted()
    assert "esp" not in kinds(bed.wire.frames())


@pytest.mark.parametrize("plane", ["beside+kernel", "kernel+beside"], indirect=True)
def test_through_nat(bed):
    """A tunnel through a NAT is taken over at the gateway behind it, and at the other one."""
    net = bed.make("nat", **VALUES).up()
    stream = bed.stream()
    bed.start()
    bed.settle()
    for near, to in ((net.client, t.SERVER4), (net.server, t.CLIENT4)):
        assert_ping(near, to, count=10)
    bed.stop()
    bed.perfect(stream)
    bed.start()
    for near, to in ((net.client, t.SERVER4), (net.server, t.CLIENT4)):
        assert_ping(near, to, count=10)


@pytest.mark.parametrize("plane", ["kernel+beside"], indirect=True)
def test_the_mapping_changes(bed):
    """When the NAT gives the peer another port, charon is told (MAPPING), and the fast path goes on with it."""
    net = bed.make("nat", **VALUES).up()
    bed.start()
    assert_ping(net.client, t.SERVER4, count=3)
    rebind(net, timeout=40)
    bed.wait_taken()
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.server, t.CLIENT4, count=10)


def ends(host):
    return {end for sa in states(host).values() for end in (sa.src, sa.dst)}


def test_the_peer_moves(bed):
    """The peer changes its address (MOBIKE): the kernel's SAs move, and the fast path goes on with them."""
    net = bed.make(local_b="%any", remote_b=t.WAN_A4, encap="yes")
    gwb = net.gwb.host
    gwb.sysctl("net.ipv4.conf.wan.promote_secondaries", 1)
    gwb.address("wan", f"{OTHER_B4}/24")
    # Only who has made an IKE_SA may move it (RFC 4555 section 3.5).
    net.start()
    net.gwb.swan.initiate("net")
    assert_ping(net.client, t.SERVER4, count=2)
    bed.start()
    used = (ends(gwb) & {t.WAN_B4, OTHER_B4}).pop()
    other = OTHER_B4 if used == t.WAN_B4 else t.WAN_B4
    before = set(states(net.gwa.host))
    net.gwa.host.ip("route", "replace", "10.2.0.0/24", "via", other)
    net.gwa.host.ip("-6", "route", "flush", "cache")
    gwb.ip("addr", "del", f"{used}/24", "dev", "wan")
    wait_for("the SAs at the other address", lambda: used not in ends(net.gwa.host) | ends(gwb) and ends(gwb))
    bed.excused |= {"XfrmInNoStates", "XfrmOutNoStates", "XfrmInTmplMismatch", "XfrmOutBundleCheckError"}
    assert set(states(net.gwa.host)) == before
    bed.wait_taken()
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.server, t.CLIENT4, count=10)


def test_the_gateway_moves(bed):
    """The gateway with culvert changes its own address (MOBIKE), and the fast path goes on with the same SAs."""
    net = bed.make(local_a="%any", encap="yes")
    gwa = net.gwa.host
    gwa.sysctl("net.ipv4.conf.wan.promote_secondaries", 1)
    gwa.address("wan", f"{OTHER_A4}/24")
    net.up()
    assert_ping(net.client, t.SERVER4, count=2)
    bed.start()
    used = (ends(gwa) & {t.WAN_A4, OTHER_A4}).pop()
    before = set(states(gwa))
    bed.excused |= {"XfrmInNoStates", "XfrmOutNoStates", "XfrmInTmplMismatch", "XfrmOutBundleCheckError"}
    gwa.ip("addr", "del", f"{used}/24", "dev", "wan")
    wait_for("the SAs at the other address", lambda: used not in ends(net.gwb.host) | ends(gwa) and ends(gwa))
    assert set(states(gwa)) == before
    bed.wait_taken()
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.server, t.CLIENT4, count=10)


def test_nat_keepalives_go_on(bed):
    """The kernel's own UDP socket of the IKE daemon still gets what is not ESP: IKE on port 4500 works beside the fast
    path."""
    net = bed.make("nat", **VALUES).up()
    bed.start()
    stream = bed.between(net.client, net.server, t.SERVER4, rate=200)
    for gateway in net.gateways():
        first = {sa["initiator-spi"] for _, sa in gateway.swan.sas()}
        gateway.swan.rekey(ike="gw")
        wait_for(
            "a new IKE_SA",
            lambda s=gateway.swan, f=first: {sa["initiator-spi"] for _, sa in s.sas()} - f,
        )
    assert_perfect(stream.finish())
