"""charon decides by the last use of the inbound SA or policy: the data path must report it."""

import signal
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.traffic import Stream, assert_perfect, assert_ping

DPD = "dpd_delay = 1s"

#: Linux counts use times in whole seconds, and traffic may pause as long as its sender does.
RELAXED = "dpd_delay = 3s"


def test_dead_peer_is_found(network):
    net = network(extra_connection=DPD, extra_child="dpd_action = clear").up()
    assert_ping(net.client, t.SERVER4)
    net.gwb.swan.process.kill(signal.SIGKILL)
    wait_for("A to give up", lambda: not net.gwa.swan.sas(), step=0.2)
    if net.gwa.daemon:
        # charon forgets the SA first, and has it deleted then.
        wait_for("no SA left", lambda: net.gwa.daemon.json("sa") == [])
        assert "spi" not in net.gwa.daemon.exec("ip", "xfrm", "state").stdout


def test_live_traffic_is_proof_of_life(network, plane):
    if "culvert" not in plane:
        pytest.skip("libipsec reports use times with another rhythm")
    net = network(extra_connection=RELAXED).up()
    stream = Stream(net.client, net.server, t.SERVER4, rate=100)
    # charon asks once more after this if it asked before the stream had begun.
    time.sleep(3)
    wire = Capture(net.mid, "west")
    time.sleep(8)
    frames = wire.stop()
    assert_perfect(stream.finish())
    asked = [f for f in frames if f.kind == "ike"]
    assert not asked, f"{len(asked)} IKE packets while traffic flowed"
    # And without traffic the question comes.
    wire = Capture(net.mid, "west")
    wait_for("the question", lambda: any(f.kind == "ike" for f in wire.frames()))
