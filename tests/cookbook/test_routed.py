"""Recipes with tunnel interfaces: routes decide."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.frr import Frr, has, learnt
from lab.recipe import COOKBOOK, Cooked, recipe
from lab.routed import no_clear_route
from lab.traffic import ping

WHY = f"--from {t.CLIENT4} --to {t.SERVER4}"


@recipe("aws", "culvert")
def test_aws(network, name):
    cooked = Cooked(network, name)
    net = cooked.net
    no_clear_route(net)
    net.gwb.host.address("wan", "192.0.2.3/24")
    cooked.follow()
    far = net.gwb.host
    for number, inside in ((1, "169.254.10.1"), (2, "169.254.11.1")):
        far.address(f"vpn{number}", f"{inside}/30")
        far.ip("route", "add", "10.1.0.0/24", "dev", f"vpn{number}", "metric", str(number))
    wait_for("both tunnels", lambda: {c["name"] for c in net.gwa.swan.children()} == {"aws1", "aws2"})
    cooked.reach((net.gwa.host, "169.254.10.1"), (net.gwa.host, "169.254.11.1"))
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    cooked.carry(net.client, net.server, t.SERVER4, "aws1")
    cooked.well(WHY)
    # By hand to the other tunnel; the way back may stay as it was.
    before = carried(net.gwa, "aws2")
    net.gwa.host.ip("route", "del", "10.2.0.0/24", "dev", "aws1")
    cooked.carry(net.client, net.server, t.SERVER4)
    assert carried(net.gwa, "aws2") > before + 50


def carried(gateway, child):
    """Packets that went out by a child."""
    return sum(int(c["packets-out"]) for c in gateway.swan.children(child))


@recipe("azure", "culvert+libipsec")
def test_azure(network, name):
    cooked = Cooked(network, name)
    net = cooked.net
    net.gwa.host.ip("route", "del", "10.2.0.0/24")
    # The peer's libipsec routes everything into the tunnel, its own network too.
    net.gwb.host.ip("rule", "add", "pref", "100", "to", "10.2.0.0/24", "lookup", "main")
    cooked.follow()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4), (net.gwa.host, t.SERVER4))
    cooked.carry(net.client, net.server, t.SERVER4, "azure")
    cooked.well(WHY)


@pytest.mark.skipif(not has("bgpd"), reason="frr is not installed")
@pytest.mark.guest
@recipe("gre-and-bgp-hub", "culvert")
def test_gre_and_bgp_hub(network, name):
    cooked = Cooked(network, name, "star")
    net = cooked.net
    # Room for more frames, as a guest is slow: headers alone.
    cooked.wire.stop()
    cooked.wire = Capture(net.mid, "west", snap=512)
    net.gwa.host.ip("route", "del", "10.2.0.0/24")
    net.gwa.host.ip("route", "del", "10.3.0.0/24")
    net.gwb.host.ip("route", "del", "10.1.0.0/24")
    net.gwc.host.ip("route", "del", "10.1.0.0/24")
    cooked.follow()
    for gateway in net.gateways():
        Frr(gateway.host, "bgpd", (COOKBOOK / name / f"{gateway.host.name}.frr.conf").read_text())
    for gateway, far in ((net.gwa, "10.2.0.0/24"), (net.gwb, "10.3.0.0/24"), (net.gwc, "10.2.0.0/24"), (net.gwc, "10.1.0.0/24")):
        wait_for(f"{far} at {gateway.host.name}", lambda gateway=gateway, far=far: learnt(gateway.host, far))
    (row,) = net.gwa.daemon.json("route")["overlays"]
    assert (row["carried"], row["far_ends"], row["kind"]) == (True, 2, "gre"), row
    assert {child["mode"] for child in net.gwa.swan.children()} == {"TRANSPORT"}
    cooked.settle()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4), (net.third, t.CLIENT4))
    # From spoke to spoke: out of one GRE, into the other, at the hub in the fast path.
    before = net.gwa.daemon.stats()["work"]
    cooked.reach((net.server, t.THIRD4), (net.third, t.SERVER4))
    cooked.carry(net.server, net.third, t.THIRD4, "b")
    after = net.gwa.daemon.stats()["work"]
    for counter in ("overlay-encapsulated", "overlay-decapsulated"):
        assert after[counter] - before[counter] >= 100, (counter, before, after)
    # Debian's profile of charon stands in the guest, without what culvert's package adds to it.
    cooked.well(
        f"{WHY} --in lan", protected=(*t.PROTECTED, "10.3.0.0/24"),
        but=("apparmor",), answers="headers of gre1",
    )  # fmt: skip


@pytest.mark.skipif(not has("bgpd"), reason="frr is not installed")
@recipe("bgp-over-ipsec", "culvert")
def test_bgp(network, name):
    cooked = Cooked(network, name)
    net = cooked.net
    no_clear_route(net)
    cooked.follow()
    speakers = [
        Frr(gateway.host, "bgpd", (COOKBOOK / name / f"{gateway.host.name}.frr.conf").read_text())
        for gateway in net.gateways()
    ]
    wait_for("a route at A", lambda: learnt(net.gwa.host, "10.2.0.0/24"))
    wait_for("a route at B", lambda: learnt(net.gwb.host, "10.1.0.0/24"))
    cooked.settle()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4), (net.gwa.host, "10.9.0.2"))
    cooked.carry(net.client, net.server, t.SERVER4, "bgp")
    cooked.well(WHY, protected=(*t.PROTECTED, "10.9.0.0/30"))
    # The neighbour is silent: its routes go, and nothing leaves another way.
    speakers[1].stop()
    wait_for("the loss", lambda: not learnt(net.gwa.host, "10.2.0.0/24"))
    assert ping(net.client, t.SERVER4, count=2)["received"] == 0
    speakers[0].stop()
