"""pluto speaks XFRM netlink in ways of its own: write() on the socket, many GETSAs, other flags."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.pluto import Pluto, missing
from lab.traffic import Stream, assert_perfect, assert_ping


def before_the_new_sa(frames):
    """How many packets B sent under its second SA before A sent its first under its own: charon
    installs what it receives with before what it sends with."""
    esp = [f for f in frames if f.is_esp]
    new = {}
    for sender in (t.WAN_A4, t.WAN_B4):
        new[sender] = list(dict.fromkeys(f.spi for f in esp if str(f.src) == sender))[1]
    own = next(i for i, f in enumerate(esp) if f.spi == new[t.WAN_A4] and str(f.src) == t.WAN_A4)
    return sum(f.spi == new[t.WAN_B4] and str(f.src) == t.WAN_B4 for f in esp[:own])


@pytest.mark.parametrize("initiator", ["gwa", "gwb"])
def test_pluto(network, request, initiator):
    if missing():
        pytest.fail(missing())
    folder = request.path.parent
    net = network(ts_a="10.1.0.0/24", ts_b="10.2.0.0/24", remote_b=t.WAN_A4)
    net.gwa.start()
    net.gwb.plane.start(net.gwb)
    pluto = Pluto(net.gwb.host, wrap=net.gwb.swan.wrap)
    pluto.configure(
        (folder / "gwb.ipsec.conf").read_text(), (folder / "gwb.ipsec.secrets").read_text()
    )
    pluto.start("net")
    wire = Capture(net.mid, "west")
    if initiator == "gwa":
        net.gwa.swan.initiate()
    else:
        pluto.initiate("net")
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.server, t.CLIENT4, count=10)
    first = net.gwa.swan.children("net")[0]["spi-in"]
    stream = Stream(net.client, net.server, t.SERVER4, rate=200)
    net.gwa.swan.rekey(child="net")
    wait_for(
        "a new CHILD_SA",
        lambda: any(c["spi-in"] != first for c in net.gwa.swan.children("net")),
    )
    assert_ping(net.client, t.SERVER4, count=10)
    report = stream.finish()
    # pluto uses the new SA as soon as it has sent its answer, which charon has to read first. RFC 7296
    # section 2.8 allows that, and says what it costs; so nothing else may be missing.
    frames = wire.stop()
    early = net.gwa.daemon.drops().get("in-no-state", 0)
    assert report["back"]["lost"] == early <= before_the_new_sa(frames), (early, report)
    report["back"]["lost"] = 0
    assert_perfect(report)
    assert_only_protected(frames)
    states = net.gwb.daemon.exec("ip", "xfrm", "state").stdout
    assert "proto esp" in states
