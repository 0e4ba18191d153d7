"""strongSwan with culvert's plugin for SM4 and SM3; skipped where it is not built (make strongswan-gm)."""

import pytest
from lab import LabError
from lab import topology as t
from lab.base import ROOT, wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import Stream, assert_perfect, assert_ping

PLUGIN = ROOT / "build/strongswan-gm/libstrongswan-gm.so"
SYSTEM = "/usr/lib/ipsec/plugins"

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason=f"{PLUGIN} is missing (make strongswan-gm)")

#: Laid beside the machine's own plugins, for this process alone.
_RUN = f'mount -t overlay overlay -o "lowerdir={PLUGIN.parent}:{SYSTEM}" {SYSTEM} && exec "$@"'


def with_plugin(network, numbers=("", ""), **values):
    net = network(remote_b=t.WAN_A4, **values)
    for gateway, own in zip(net.gateways(), numbers, strict=True):
        gateway.swan.kernel = "gm"
        gateway.swan.wrap += ["unshare", "--mount", "sh", "-c", _RUN, "gm"]
        gateway.swan.configure(
            (gateway.swan.etc / "swanctl.conf").read_text(),
            "charon-systemd {\n  accept_private_algs = yes\n  plugins {\n    gm {\n"
            f"      {own}\n    }}\n  }}\n}}\n",
        )
    return net


@pytest.mark.parametrize(
    "esp, name", [("sm4gcm16", "sm4gcm16"), ("sm4-sm3-esn", "sm4-sm3"), ("sm4ctr-sm3", "sm4ctr-sm3")]
)
def test_is_negotiated_and_rekeyed(network, esp, name):
    net = with_plugin(network, esp=esp).up()
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=5)
    assert_ping(net.server, t.CLIENT6, count=5)
    stream = Stream(net.client, net.server, t.SERVER4, count=300, rate=300, most=1000)
    net.gwa.swan.rekey(child="net")
    wait_for("the new child", lambda: net.gwa.swan.children("net")[-1]["uniqueid"] != "1")
    stream.wait()
    assert_perfect(stream.finish())
    assert_only_protected(wire.stop())
    for gateway in net.gateways():
        assert {sa["suite"] for sa in gateway.daemon.json("sa")} == {name}


@pytest.mark.parametrize("plane", ["culvert+kernel"], indirect=True)
def test_agrees_with_linux(network):
    """In a guest, whose kernel has SM4-CBC and HMAC-SM3."""
    net = with_plugin(network, esp="sm4-sm3").up()
    assert_ping(net.client, t.SERVER4, count=20)
    assert_ping(net.server, t.CLIENT6, count=20)


def test_other_numbers_are_no_agreement(network):
    net = with_plugin(network, numbers=("sm4gcm16 = 65001", "sm4gcm16 = 80000"), esp="sm4gcm16").start()
    with pytest.raises(LabError, match="NO_PROPOSAL_CHOSEN"):
        net.gwa.swan.initiate()
    assert "plugins.gm.sm4gcm16 = 80000 is no number of private use" in net.gwb.swan.output()
    assert net.gwa.daemon.json("sa") == []
