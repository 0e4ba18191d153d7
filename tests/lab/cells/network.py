"""The hosts of a small cell, from the modems to the core network, and the links between them.

    LTE modem --lte-- NR modem --wan-- backhaul router -- security gateway -- core network
                         |
                application of the NR modem (shares memory)

The NR modem's box has the backhaul. The security gateway is the responder of IKE, and gives out inner addresses. `core` is the
user-plane functions (GTP-U) and the operations server in one host, by an address each.
"""

from ..base import ROOT
from ..planes import PLANES
from ..topology import Gateway, filled
from . import operations, user_plane

#: Files of the deployments, as people copy them.
FILES = ROOT / "demo" / "cells"

#: Backhaul: NR modem, router's two sides, security gateway.
NR, ROUTER_CELL, ROUTER_CORE, SEGW = "198.51.100.2", "198.51.100.1", "203.0.113.1", "203.0.113.2"
#: The link between the modems.
NR_LTE, LTE = "192.168.7.1", "192.168.7.2"
#: Inner addresses that the core network gives out.
INNER_NR, INNER_LTE = "10.45.0.1", "10.45.0.2"
#: The core network: user planes for NR and for LTE, and operations.
CORE_GW, UPF, SGW, OPERATIONS = "10.60.0.1", "10.60.1.2", "10.60.1.3", "10.60.2.2"
CORE = "10.60.0.0/16"

#: The hardware addresses of the memif port and of the application behind it.
PORT_MAC, APP_MAC = "02:00:00:00:05:01", "02:00:00:00:05:02"

#: Of one user of each modem: the downlink TEID; the uplink's is that with the highest bit.
TEID_NR, TEID_LTE = 0x1001, 0x2001


class Network:
    """Hosts, links, daemons and programs of one deployment."""

    def __init__(self, lab, folder, lte_plane="", settings=""):
        """`folder`: its files. `lte_plane`: what carries the LTE modem's own tunnel. `settings`: what the NR modem's
        configuration has besides."""
        self.lab, self.folder, self.settings = lab, folder, settings
        self.lte_host = lab.host("lte")
        nr, self.router = lab.host("nr", forward=True), lab.host("router", forward=True)
        segw, self.core = lab.host("segw", forward=True), lab.host("core")
        lab.link(self.lte_host, "eth0", nr, "lte")
        lab.link(nr, "wan", self.router, "cell")
        lab.link(self.router, "core", segw, "wan")
        lab.link(segw, "core", self.core, "eth0")
        self.lte_host.address("eth0", f"{LTE}/24")
        nr.address("lte", f"{NR_LTE}/24")
        nr.address("wan", f"{NR}/24")
        self.router.address("cell", f"{ROUTER_CELL}/24")
        self.router.address("core", f"{ROUTER_CORE}/24")
        segw.address("wan", f"{SEGW}/24")
        segw.address("core", f"{CORE_GW}/16")
        for address in (UPF, SGW, OPERATIONS):
            self.core.address("eth0", f"{address}/16")
        nr.route("default", "via", ROUTER_CELL)
        segw.route("default", "via", ROUTER_CORE)
        self.lte_host.route("default", "via", NR_LTE)
        self.core.route("default", "via", CORE_GW)
        self.nr = Gateway(nr, PLANES["culvert"], [])
        self.segw = Gateway(segw, PLANES["culvert"], [])
        self.lte = Gateway(self.lte_host, PLANES[lte_plane], []) if lte_plane else None
        self.socket = lab.tmp / "app0.sock"
        self._configure()
        lab.network = self

    def gateways(self):
        """Those with a culvert daemon or an IKE daemon."""
        return [gateway for gateway in (self.nr, self.segw, self.lte) if gateway]

    def read(self, name):
        """A file of the deployment with what is different in a lab; None if it has none."""
        file = self.folder / name
        return file.read_text().replace("/run/culvert/app0.sock", str(self.socket)) if file.exists() else None

    def _configure(self):
        for gateway in self.gateways():
            name = gateway.host.name
            gateway.swan.configure(filled(self.read(f"{name}.swanctl.conf")), self.read(f"{name}.strongswan.conf") or "")
            daemon = self.read(f"{name}.culvert.toml")
            if gateway.daemon:
                settings = self.settings if gateway is self.nr else ""
                gateway.daemon.write_config(f'name = "@NAME@"\n{daemon}{settings}')
            script = self.read(f"{name}.addresses")
            if script:
                path = gateway.swan.etc / "addresses"
                path.write_text(script)
                path.chmod(0o755)

    def typed(self, host):
        """Runs a deployment's commands for a host: `HOST.sh`."""
        script = self.read(f"{host.name}.sh")
        if script:
            host.run("sh", "-e", "-c", script)

    def start(self):
        """Starts what runs on the hosts, the responder first; no tunnel yet."""
        for gateway in (self.segw, self.nr, self.lte):
            if gateway:
                gateway.start()
        for host in (self.lab.hosts[name] for name in ("nr", "lte")):
            self.typed(host)
        return self

    def programs(self, nr_address, lte_address, sgw):
        """Starts the programs of modems and core, once the modems have these addresses. `sgw`: the LTE modem's peer."""
        lab = self.lab
        self.upf = user_plane.Peer(lab, user_plane.OverLinux(self.core, UPF))
        self.sgw = self.upf if sgw == UPF else user_plane.Peer(lab, user_plane.OverLinux(self.core, sgw))
        self.server = operations.Server(lab, self.core, OPERATIONS)
        self.app = user_plane.Peer(lab, user_plane.OverMemif(self.socket, nr_address, APP_MAC, PORT_MAC))
        self.lte_app = user_plane.Peer(lab, user_plane.OverLinux(self.lte_host, lte_address))
        return self
