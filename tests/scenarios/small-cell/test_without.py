"""Without a tunnel, and without a daemon: nothing of the modems is in clear on the backhaul."""

import os

import pytest
from lab.base import wait_for
from lab.cells import claims, network as n
from lab.cells.evidence import SEALED
from lab.capture import leaks

pytestmark = pytest.mark.skipif(
    os.environ.get("CULVERT_SUITES") == "sample", reason="not in the sample: make scenarios-full ONLY=small-cell"
)

UP = n.user_plane.UPLINK


@pytest.mark.parametrize("name", ["3", "4"])
def test_nothing_is_in_clear(deploy, name):
    run = deploy(name)
    net, sgw = run.net, run.deployment.sgw

    def ask(peer, to, teid, patience_s):
        return peer.ask(to, teid | UP, 5, patience_s=patience_s).lost

    assert not ask(net.app, n.UPF, n.TEID_NR, 10) and not ask(net.lte_app, sgw, n.TEID_LTE, 10)
    net.nr.swan.terminate(child="nr")
    wait_for("no SA", lambda: not net.nr.daemon.json("sa"))
    assert ask(net.app, n.UPF, n.TEID_NR, 0.5) and ask(net.lte_app, sgw, n.TEID_LTE, 0.5)
    net.nr.swan.initiate("nr")
    wait_for("the application", lambda: not ask(net.app, n.UPF, n.TEID_NR, 1))
    wait_for("the LTE modem", lambda: not ask(net.lte_app, sgw, n.TEID_LTE, 1))
    net.nr.daemon.kill9()
    # The application's memory is nobody's now.
    assert ask(net.lte_app, sgw, n.TEID_LTE, 0.5)
    frames = run.wire.stop()
    found = leaks(frames, claims.PROTECTED) + [frame for frame in frames if frame.kind not in SEALED]
    assert not found, "; ".join(map(str, found[:5]))
