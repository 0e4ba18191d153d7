"""culvert starts beside a kernel that does ESP itself. Runs in a guest (see conftest.py)."""

import re

from lab import topology as t
from lab.base import wait_for
from lab.planes import Daemon
from lab.traffic import Stream, assert_perfect, assert_ping


def says_whose(text):
    """Does a line say that the kernel has SAs of its own, and that their ESP is left to it?"""
    return any(
        re.search(r"\bkernel\b", line) and re.search(r"\bSAs?\b", line) and re.search(
            r"\b(left|leaves?) (it )?to\b", line
        )
        for line in text.splitlines()
    )  # fmt: skip


def established(network, encap="no"):
    """Two gateways with the kernel's ESP and a tunnel that works; and a daemon for gateway A that
    does not run yet."""
    net = network(encap=encap).up()
    pings_pass(net)
    net.gwa.daemon = Daemon(net.gwa.host, ["wan", "lan"], source="builtin")
    return net, net.gwa.daemon


def pings_pass(net, count=20):
    for near, to in ((net.client, t.SERVER4), (net.client, t.SERVER6), (net.server, t.CLIENT4)):
        assert_ping(near, to, count=count, wait=5)


def test_the_kernels_tunnel_lives_on(network):
    net, daemon = established(network)
    daemon.start()
    pings_pass(net)
    assert not {name: n for name, n in daemon.drops().items() if n}
    daemon.stop()
    pings_pass(net)


def test_so_does_one_with_esp_in_udp(network):
    net, daemon = established(network, encap="yes")
    daemon.start()
    pings_pass(net)
    assert not {name: n for name, n in daemon.drops().items() if n}


def test_sas_that_come_later_are_left_to_the_kernel_too(network):
    net, daemon = established(network)
    daemon.start()
    stream = Stream(net.client, net.server, t.SERVER4, rate=100)
    for gateway in net.gateways():
        before = {child["spi-in"] for child in gateway.swan.children("net")}
        gateway.swan.rekey(child="net")
        wait_for(
            "a new CHILD_SA",
            lambda swan=gateway.swan, before=before: (
                {child["spi-in"] for child in swan.children("net")} - before
            ),
        )
        pings_pass(net, count=5)
    assert_perfect(stream.finish())


def test_it_is_said_at_the_start_and_in_the_status(network):
    _, daemon = established(network)
    daemon.start()
    wait_for("a word in the log", lambda: says_whose(daemon.log()), timeout=5)
    assert says_whose("\n".join(daemon.json("status")["warnings"]))
    assert says_whose(daemon.culvert("status").stdout)


def test_doctor_says_so_before_the_start(network):
    _, daemon = established(network)
    said = daemon.culvert("doctor", "--config", daemon.config, check=False).stdout
    assert says_whose(said), said


def test_nothing_is_said_where_the_kernel_has_no_sa(network):
    """What says it must be able to say no."""
    net = network()
    daemon = Daemon(net.gwa.host, ["wan", "lan"], source="builtin")
    said = daemon.culvert("doctor", "--config", daemon.config, check=False).stdout
    assert not says_whose(said), said
    daemon.start()
    assert not says_whose(daemon.log())
    assert not says_whose(daemon.culvert("status").stdout)
