"""Recipes with one gateway in the middle and several that call it."""

import pytest
from lab import LabError
from lab import topology as t
from lab.base import wait_for
from lab.recipe import Cooked, certificates, recipe

#: The pool's first addresses.
FIRST, SECOND = "10.8.0.1", "10.8.0.2"


@recipe("road-warriors-eap", "culvert+libipsec")
def test_road_warriors(network, lab, name):
    cooked = Cooked(network, name, "star")
    certificates(name, lab.tmp / "pki")
    cooked.certify(lab.tmp / "pki", "vpn", None, None)
    net = cooked.follow()
    for warrior, address in ((net.gwb.host, FIRST), (net.gwc.host, SECOND)):
        wait_for("the address", lambda w=warrior, a=address: a in w.ip("addr").stdout)
        cooked.reach((warrior, t.CLIENT4), (net.client, address))
    cooked.carry(net.gwb.host, net.client, t.CLIENT4, "office", net.gwb)
    assert {sa["remote-eap-id"] for _, sa in net.gwa.swan.sas()} == {"carol", "dave"}
    cooked.well(f"--from {t.CLIENT4} --to {FIRST}", protected=(*t.PROTECTED, "10.8.0.0/24"))
    # Not with another password.
    file = net.gwb.swan.etc / "swanctl.conf"
    file.write_text(file.read_text().replace("Carol's password", "Dave's password"))
    net.gwb.swan.terminate(ike="office")
    net.gwb.swan.swanctl("--load-all", "--clear")
    with pytest.raises(LabError, match="EAP_MSCHAPV2|EAP"):
        net.gwb.swan.initiate("office")


@recipe("hub-and-spoke", "culvert+libipsec")
def test_hub_and_spoke(network, name):
    cooked = Cooked(network, name, "star")
    net = cooked.follow()
    wait_for("both spokes", lambda: {c["name"] for c in net.gwa.swan.children()} == {"b", "c"})
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4), (net.client, t.THIRD4), (net.third, t.CLIENT4))
    # From spoke to spoke: out of one tunnel, into the other.
    cooked.reach((net.server, t.THIRD4), (net.third, t.SERVER4))
    cooked.carry(net.server, net.third, t.THIRD4, "b")
    spi = net.gwa.swan.children("b")[-1]["spi-in"]
    # As the README says which one it is.
    ends = [(sa["src"], sa["dst"]) for sa in net.gwa.daemon.json("sa") if int(str(sa["spi"]), 16) == int(spi, 16)]
    assert ends == [(t.WAN_B4, t.WAN_A4)]
    cooked.well(f"--from {t.SERVER4} --to {t.THIRD4} --spi 0x{spi}", protected=(*t.PROTECTED, "10.3.0.0/24"))
