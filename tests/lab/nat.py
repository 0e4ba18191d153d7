"""A gateway behind a NAT box, and a box that forgets its bindings (topology `nat`)."""

from . import topology as t
from .base import PATIENCE_S, wait_for
from .traffic import ping

#: What connections of `nat` say: the box's outside address is not protected, the LANs are; there is no IPv6 here.
VALUES = {"local_a": t.NAT_A4, "ts_a": "10.1.0.0/24", "ts_b": "10.2.0.0/24"}

_OTHER_PORTS = """
flush ruleset
table ip nat {
  chain post {
    type nat hook postrouting priority srcnat
    oifname "out" meta l4proto udp masquerade to :40000-40999 random
  }
}
"""


def rebind(net, timeout=PATIENCE_S):
    """The NAT forgets its bindings and gives other ports; waits until B has followed. A has to send for that."""
    before = net.gwb.swan.sas()[0][1]["remote-port"]
    net.nat.run("nft", "-f", "-", stdin=_OTHER_PORTS)
    net.nat.run("conntrack", "-F", check=False)

    # The first packets from behind the NAT carry the new port; charon at B is told (MAPPING).
    def follows():
        ping(net.client, t.SERVER4, count=5, interval=0.2)
        return net.gwb.swan.sas()[0][1]["remote-port"] != before

    wait_for("B to follow the port", follows, timeout=timeout)
