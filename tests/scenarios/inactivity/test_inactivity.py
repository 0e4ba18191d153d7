"""inactivity = 4s: last use is asked from the data path."""

import time

from lab import topology as t
from lab.base import wait_for
from lab.traffic import Stream


def test_used_stays_unused_goes(network):
    net = network(extra_child="inactivity = 4s").up()
    stream = Stream(net.client, net.server, t.SERVER4, rate=20)
    time.sleep(10)
    assert net.gwa.swan.children("net"), "closed although it was used"
    report = stream.finish()
    assert report["back"]["lost"] == 0, report
    wait_for("the CHILD_SA to be closed", lambda: not net.gwa.swan.children("net"))
