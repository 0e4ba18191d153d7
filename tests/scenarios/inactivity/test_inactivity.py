"""inactivity = 2s: last use is asked from the data path."""

import time

from lab import topology as t
from lab.base import wait_for
from lab.traffic import Stream


def test_used_stays_unused_goes(network):
    net = network(extra_child="inactivity = 2s").up()
    stream = Stream(net.client, net.server, t.SERVER4, rate=20)
    time.sleep(5)
    assert net.gwa.swan.children("net"), "closed although it was used"
    report = stream.finish()
    assert report["back"]["lost"] == 0, report
    start = time.monotonic()
    wait_for("the CHILD_SA to be closed", lambda: not net.gwa.swan.children("net"), 10, 0.1)
    # Linux counts in whole seconds; charon polls by the second.
    assert 0.5 < time.monotonic() - start < 6
