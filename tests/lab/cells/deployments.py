"""The four ways to bring an NR and an LTE modem through one backhaul, as they are brought up, used and judged.

`run` makes one, has traffic pass in all ways that it is for, and returns what was seen. `Deployment.claims` is what its
description promises, each sentence with whether it held.
"""

import threading
import time
from dataclasses import dataclass

from ..base import wait_for
from . import claims, network as n, operations
from .evidence import Watch, capture
from .learning import Flows

#: G-PDUs that are asked with in each direction, of each modem; as many answer.
COUNT = 200


@dataclass(frozen=True)
class Deployment:
    #: Its name: its folder's, and what `make demo CELL=` takes.
    name: str
    title: str
    #: What it is, in sentences.
    says: str
    #: The children that the NR modem's IKE daemon starts.
    children: tuple
    #: What carries the LTE modem's own tunnel, if it has one.
    lte_plane: str
    #: The LTE modem's address at its own programs, and the one that the core network sees.
    lte_address: str
    lte_seen: str
    #: The LTE modem's peer in the core network.
    sgw: str
    #: What must hold: called with the run.
    claims: object
    #: The NR modem's inner address.
    nr_address: str = n.INNER_NR


DEPLOYMENTS = {
    d.name: d
    for d in (
        Deployment(
            "1", "a tunnel each, the LTE modem's behind the NR modem's NAT",
            "The LTE modem has an IKE daemon of its own. Linux on the NR modem translates its packets like anybody's, so its "
            "ESP is in UDP. The NR modem's own tunnel is bare ESP.",
            ("nr",), "libipsec", n.INNER_LTE, n.INNER_LTE, n.SGW, claims.own_tunnels,
        ),
        Deployment(
            "2", "two tunnels, which both end on the NR modem",
            "One IKE daemon asks for two tunnels, as the NR modem and as the LTE modem. The inner address of the second is "
            "handed on: the NR modem routes it to the LTE modem, which knows nothing of IPsec.",
            ("nr", "lte"), "", n.INNER_LTE, n.INNER_LTE, n.SGW, claims.two_tunnels,
        ),
        Deployment(
            "3", "one tunnel with two inner addresses",
            "One pair of SAs carries both modems. The first inner address is the NR modem's, the second is routed to the LTE "
            "modem.",
            ("nr",), "", n.INNER_LTE, n.INNER_LTE, n.SGW, claims.two_addresses,
        ),
        Deployment(
            "4", "one tunnel and one inner address for both",
            "The core network sees one address. GTP-U of the NR modem is told by its TEID; the LTE modem's packets get the "
            "shared address from Linux's NAT before they are encrypted, and have it translated back.",
            ("nr",), "", n.LTE, n.INNER_NR, n.UPF, claims.shared_address,
        ),
        Deployment(
            "4-backhaul", "as 4, and the inner address is that of the backhaul",
            "The NR modem has no other address inside the tunnel than outside of it.",
            ("nr",), "", n.LTE, n.NR, n.UPF, claims.shared_address, n.NR,
        ),
    )
}  # fmt: skip


class Run:
    """One deployment, with what came of it."""

    def __init__(self, deployment, net):
        self.deployment, self.net = deployment, net
        #: Seconds of each negotiation, by child.
        self.negotiated = {}
        #: GTP-U both ways: name, then (source, destination, `Exchange`).
        self.exchanges = {}
        #: Of the operations traffic, by modem: the address that was resolved, and the bytes that came back.
        self.resolved, self.transferred = {}, {}
        self.flows = self.seen = None
        #: What is on the backhaul, from before the first tunnel on.
        self.wire = capture(net, "backhaul")

    def claims(self):
        return self.deployment.claims(self)


def bring_up(lab, name, settings=""):
    """Hosts, daemons, tunnels and programs: a `Run` without traffic yet. `settings`: more of the NR modem's configuration."""
    deployment = DEPLOYMENTS[name]
    net = n.Network(lab, n.FILES / name, deployment.lte_plane, settings).start()
    run = Run(deployment, net)
    for gateway, children in ((net.nr, deployment.children), (net.lte, ("lte",))):
        for child in children if gateway else ():
            begun = time.monotonic()
            gateway.swan.initiate(child)
            run.negotiated[child] = time.monotonic() - begun
    if (net.folder / "nr.addresses").exists():
        wait_for("the script of the tunnels", lambda: _are_known(net, (deployment.nr_address, deployment.lte_seen)))
    net.programs(deployment.nr_address, deployment.lte_address, deployment.sgw)
    return run


def _are_known(net, addresses):
    """Whether culvert on the NR modem knows where addresses are."""
    told = net.nr.daemon.culvert("route").stdout.split()
    return all(address in told or f"{address}/32" in told for address in addresses)


def traffic(run, count=COUNT):
    """GTP-U both ways of both modems, with operations beside it; judged from then on."""
    net, deployment = run.net, run.deployment
    run.flows = Flows(net.nr.daemon)
    watch = Watch(net, run.wire)
    beside = threading.Thread(target=_operate, args=(run,), daemon=True)
    beside.start()
    up = n.user_plane.UPLINK
    for name, peer, to, teid in (
        ("NR uplink", net.app, n.UPF, n.TEID_NR | up),
        ("NR downlink", net.upf, deployment.nr_address, n.TEID_NR),
        ("LTE uplink", net.lte_app, deployment.sgw, n.TEID_LTE | up),
        ("LTE downlink", net.sgw, deployment.lte_seen, n.TEID_LTE),
    ):
        run.exchanges[name] = (peer.address, to, peer.ask(to, teid, count))
    beside.join(60)
    run.flows.stop()
    run.seen = watch.stop()
    return run


def _operate(run):
    """The management programs of both modems."""
    net = run.net
    for name, host, source in (("NR", net.nr.host, ""), ("LTE", net.lte_host, run.deployment.lte_address)):
        run.resolved[name] = operations.resolve(host, n.OPERATIONS, "amf.core.test", source)
        run.transferred[name] = operations.transfer(host, n.OPERATIONS, source=source)
