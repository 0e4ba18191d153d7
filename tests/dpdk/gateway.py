"""The hosts of a script: a tester with the two interfaces that it opens, and culvert between them.

    tester dtap0 --ESP-- p0 [AF_XDP] gateway p1 --clear-- dtap1 tester

The scripts have their SAs end at addresses of hosts behind the gateway. Linux, and so culvert, takes
ESP only for an address of its own: the gateway has these addresses too. So p1 is Linux's, not a port
of culvert, and what comes from a tunnel (`iif culvert0`) is routed before the local table is asked.
"""

import socket
import time

from lab.base import LabError
from lab.planes import Daemon

from .secgw import first_host

#: What DPDK calls its TAP interfaces.
TAPS = ("dtap0", "dtap1")
PORTS = ("p0", "p1")

#: The routing table of what comes from a tunnel.
_FROM_TUNNELS = "50"
_QUIET_S = 1.5


class Gateway:
    """The hosts of one script, up and configured."""

    def __init__(self, lab, config):
        self.lab, self.config = lab, config
        self.tester, self.host = lab.host("tester"), lab.host("gateway", forward=True)
        for number in (0, 1):
            lab.link(self.tester, TAPS[number], self.host, PORTS[number], offload=False)
        # The scripts look at every frame: the tester's Linux must not send any.
        for family in ("all", *TAPS):
            self.tester.sysctl(f"net.ipv6.conf.{family}.disable_ipv6", 1)
        self._macs()
        self._addresses()
        self.daemon = Daemon(self.host, [PORTS[0]])

    def _macs(self):
        """The scripts send to the address of the interface that they expect the packet at."""
        for number in (0, 1):
            mac = self.tester.mac(TAPS[1 - number])
            self.host.ip("link", "set", "dev", PORTS[number], "address", mac)

    def _addresses(self):
        host = self.host
        # Packets from the tester have sources that the gateway has as well.
        host.sysctl(f"net.ipv4.conf.{PORTS[1]}.accept_local", 1)
        for address in self.config.own():
            host.address(PORTS[0], f"{address}/{address.max_prefixlen}")
        for family in ("-4", "-6"):
            host.ip(family, "rule", "add", "pref", "100", "lookup", "local")
            host.ip(family, "rule", "add", "pref", "50", "iif", "culvert0", "lookup", _FROM_TUNNELS)
            host.ip(family, "rule", "del", "pref", "0")
        for route in self.config.routes:
            host.route(str(route.dst), "dev", PORTS[route.port])
            if route.port == 1:
                host.route(str(route.dst), "dev", PORTS[1], "table", _FROM_TUNNELS)
            host.ip(
                "neigh", "replace", first_host(route.dst), "dev", PORTS[route.port],
                "lladdr", self.tester.mac(TAPS[route.port]), "nud", "permanent",
            )  # fmt: skip

    def start(self):
        """Starts culvert, gives it the SAs and policies, and waits until nothing is sent by itself."""
        self.daemon.start()
        batch = self.lab.tmp / "secgw.batch"
        batch.write_text(self.config.batch())
        done = self.daemon.exec("ip", "-batch", batch)
        if done.stderr:
            raise LabError(f"ip -batch: {done.stderr}")
        self._wait_quiet()

    def _wait_quiet(self):
        """Linux announces multicast groups for a while after an interface has come up."""
        end = time.monotonic() + 30
        for tap in TAPS:
            listener = self.tester.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            with listener, self.tester.entered():
                listener.bind((tap, 0))
                listener.settimeout(_QUIET_S)
                while time.monotonic() < end:
                    try:
                        listener.recv(2048)
                    except TimeoutError:
                        break
                else:
                    raise LabError(f"{tap}: not quiet within 30 s")
