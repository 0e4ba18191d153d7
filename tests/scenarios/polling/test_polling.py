"""What the worker does when no packets come, and that packets come all the same."""

import pytest

from lab import topology as t
from lab.base import LabError, wait_for
from lab.traffic import assert_ping, first_answer


def sleeps(gateway):
    return gateway.daemon.stats()["work"]["sleeps"]


def test_an_idle_worker_sleeps_and_wakes(network):
    net = network().up()
    assert net.gwa.daemon.json("status")["polling"] == "adaptive"
    assert_ping(net.client, t.SERVER4, count=5)
    before = sleeps(net.gwa)
    wait_for("a sleep", lambda: sleeps(net.gwa) > before)
    # Each of these wakes it: far apart, one by one.
    assert_ping(net.client, t.SERVER4, count=5, interval=0.3)
    assert_ping(net.server, t.CLIENT6, count=5)


def state(daemon, interface):
    """What a port is; None while the daemon is too busy to say, which it is not for long."""
    try:
        ports = daemon.json("port")
    except LabError:
        return None
    return next(port["state"] for port in ports if port["interface"] == interface)


@pytest.mark.parametrize("how", ["flag", "key"])
def test_one_that_polls_never_sleeps(network, how):
    net = network()
    daemon = net.gwa.daemon
    if how == "flag":
        daemon.arguments = ["--poll"]
    else:
        daemon.write_config(daemon.config.read_text() + '[worker]\npoll = "always"\n')
    net.up()
    assert daemon.json("status")["polling"] == "always"
    assert_ping(net.client, t.SERVER4, count=20)
    assert_ping(net.gwa.host, t.LAN_B4, count=5)
    assert sleeps(net.gwa) == 0
    # It hears of what the control thread has to say without being woken.
    net.gwa.host.run("ip", "link", "set", "lan", "down")
    is_closed = lambda: state(daemon, "lan") not in (None, "up")  # noqa: E731
    wait_for("the port to close", is_closed)
    net.gwa.host.run("ip", "link", "set", "lan", "up")
    wait_for("the port to open", lambda: state(daemon, "lan") == "up")
    # Routes and neighbours come back a moment after the port.
    first_answer(net.client, t.SERVER4)
    assert_ping(net.client, t.SERVER4, count=5)
