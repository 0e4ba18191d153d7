"""Recipes for two sites whose policies say what is protected."""

from lab import topology as t
from lab.capture import kinds
from lab.recipe import Cooked, recipe

WHY = f"--from {t.CLIENT4} --to {t.SERVER4}"


@recipe("site-to-site", "culvert+libipsec", "culvert")
def test_site_to_site(network, name):
    cooked = Cooked(network, name)
    net = cooked.follow()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4), (net.client, t.SERVER6), (net.server, t.CLIENT6))
    cooked.carry(net.client, net.server, t.SERVER4, "net")
    cooked.well(WHY)


@recipe("behind-nat", "culvert+libipsec")
def test_behind_nat(network, name):
    cooked = Cooked(network, name, "nat")
    net = cooked.follow()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    cooked.carry(net.client, net.server, t.SERVER4, "net")
    # The NAT was noticed, not only survived.
    assert net.gwa.swan.sas()[0][1]["nat-local"] == "yes"
    assert "esp" not in kinds(cooked.wire.frames())
    cooked.well(WHY)


@recipe("host-to-host", "culvert")
def test_host_to_host(network, name):
    cooked = Cooked(network, name, "host2host")
    net = cooked.follow()
    assert net.gwa.swan.children("hosts")[0]["mode"] == "TRANSPORT"
    a, b = net.gwa.host, net.gwb.host
    cooked.reach((a, t.WAN_B4), (b, t.WAN_A4))
    cooked.carry(a, b, t.WAN_B4, "hosts")
    # The addresses are on the wire, what they say is not.
    cooked.well(f"--from {t.WAN_A4} --to {t.WAN_B4}", protected=(), but=("forwarding",))
