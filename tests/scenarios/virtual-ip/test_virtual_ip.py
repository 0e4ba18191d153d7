"""Mode config, and traffic that starts and ends on the gateway itself."""

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.traffic import Stream, assert_perfect, assert_ping

VIP = "10.3.0.1"


def test_virtual_address(network):
    net = network().start()
    wire = Capture(net.mid, "west")
    net.gwa.swan.initiate()
    wait_for("the virtual address", lambda: VIP in net.gwa.host.ip("addr").stdout)
    # The routing that charon installs picks the virtual address by itself.
    assert_ping(net.gwa.host, t.SERVER4, count=10)
    assert_ping(net.server, VIP, count=10)
    stream = Stream(net.gwa.host, net.server, t.SERVER4, count=500, most=100)
    stream.wait()
    assert_perfect(stream.finish())
    assert_only_protected(wire.stop(), protected=(*t.PROTECTED, "10.3.0.0/28"))
