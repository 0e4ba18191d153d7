"""The recipe for peers with IKEv1, by libreswan."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.pluto import Pluto, missing
from lab.recipe import COOKBOOK, Cooked, recipe


@recipe("ikev1-libreswan", "culvert+libipsec")
def test_ikev1_libreswan(network, name):
    if missing():
        pytest.fail(missing())
    cooked = Cooked(network, name)
    net = cooked.net
    net.gwa.plane.start(net.gwa)
    pluto = Pluto(net.gwa.host, wrap=net.gwa.swan.wrap)
    folder = COOKBOOK / name
    pluto.configure((folder / "gwa.ipsec.conf").read_text(), (folder / "gwa.ipsec.secrets").read_text())
    pluto.start("net")
    # It calls by itself.
    net.gwb.start()
    wait_for("a tunnel", net.gwb.swan.children)
    assert net.gwb.swan.sas()[0][1]["version"] == "1"
    cooked.settle()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    assert {sa["suite"] for sa in net.gwa.daemon.json("sa")} == {"aes256-sha1"}
    cooked.carry(net.client, net.server, t.SERVER4)
    cooked.well(f"--from {t.CLIENT4} --to {t.SERVER4}")
