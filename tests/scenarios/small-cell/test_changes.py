"""Flows follow what changes in Linux: routes, neighbours, links. Deployment 2, whose LTE modem is reached past Linux."""

import os
import threading
import time

import pytest
from lab.base import wait_for
from lab.cells import network as n
from lab.cells.evidence import SEALED, teid
from lab.capture import Capture, IvRecord

pytestmark = pytest.mark.skipif(
    os.environ.get("CULVERT_SUITES") == "sample", reason="not in the sample: make scenarios-full ONLY=small-cell"
)

#: Within what time a flow has to be where Linux has it now.
AT_ONCE_S = 0.1

#: Packets a second of the streams.
RATE = 500


class Downlink:
    """Questions to the LTE modem at a steady rate, whether they are answered or not."""

    def __init__(self, net, seconds):
        count = int(seconds * RATE)
        self.exchange = None

        def send():
            self.exchange = net.sgw.ask(n.INNER_LTE, n.TEID_LTE, count, rate=RATE, most=count, patience_s=2)

        self._thread = threading.Thread(target=send, daemon=True)
        self._thread.start()

    def finish(self):
        self._thread.join(60)
        return self.exchange


def downlink(capture):
    """The stream's packets on a link."""
    return [frame for frame in capture.stop() if teid(frame) == n.TEID_LTE]


def changed(host, *command):
    """Runs `ip`; when Linux had done it, by the clock of captures."""
    host.ip(*command)
    return time.time()


def assert_moved(old, new, at):
    """All of the old way is before, and the new way begins, within the time."""
    late, begun = max(f.time for f in old) - at, min(f.time for f in new) - at
    print(f"last by the old way {late * 1e3:+.1f} ms, first by the new way {begun * 1e3:+.1f} ms")
    assert late < AT_ONCE_S and begun < AT_ONCE_S, (late, begun)


def test_a_route_moves_a_flow(deploy, lab):
    net = deploy("2").net
    lab.link(net.nr.host, "lte2", net.lte_host, "eth1")
    net.nr.host.address("lte2", "192.168.8.1/24")
    net.lte_host.address("eth1", "192.168.8.2/24")
    net.nr.daemon.write_config(net.nr.daemon.config.read_text() + '\n[[port]]\ninterface = "lte2"\n')
    net.nr.daemon.reload()
    net.nr.host.run("ping", "-c", "1", "192.168.8.2")
    wait_for("an answer", lambda: not net.sgw.ask(n.INNER_LTE, n.TEID_LTE, 1, patience_s=1).lost)
    old, new = Capture(net.lte_host, "eth0"), Capture(net.lte_host, "eth1")
    stream = Downlink(net, 1.5)
    time.sleep(0.5)
    at = changed(net.nr.host, "route", "replace", f"{n.INNER_LTE}/32", "via", "192.168.8.2", "dev", "lte2")
    assert not stream.finish().lost
    assert_moved(downlink(old), downlink(new), at)


def test_a_neighbour_moves_a_flow(deploy):
    net = deploy("2").net
    mac, other = net.lte_host.mac("eth0"), "02:00:00:00:07:99"
    assert not net.sgw.ask(n.INNER_LTE, n.TEID_LTE, 10).lost
    link = Capture(net.lte_host, "eth0")
    stream = Downlink(net, 1.5)
    entry = (n.LTE, "dev", "lte", "nud", "permanent")
    times = []
    for address in (other, mac):
        time.sleep(0.4)
        times.append(changed(net.nr.host, "neigh", "replace", *entry, "lladdr", address))
    lost = stream.finish().lost
    frames = downlink(link)
    there = [f for f in frames if f.data[:6].hex(":") == other]
    before = [f for f in frames if f not in there and f.time < there[0].time]
    again = [f for f in frames if f not in there and f.time > there[0].time]
    assert_moved(before, there, times[0])
    assert_moved(there, again, times[1])
    # Nobody has the other address: as many were lost as went there.
    assert lost == len(there)


def test_a_neighbour_in_doubt_costs_no_plans(deploy):
    """Linux does not say when it is about to confirm a neighbour that was stale, 5 s later."""
    net = deploy("2").net
    assert not net.sgw.ask(n.INNER_LTE, n.TEID_LTE, 10).lost
    for address, port in ((n.ROUTER_CELL, "wan"), (n.LTE, "lte")):
        net.nr.host.ip("neigh", "change", address, "dev", port, "nud", "stale")
    before = net.nr.daemon.stats()["work"]
    assert not net.sgw.ask(n.INNER_LTE, n.TEID_LTE, 200, rate=200).lost
    work = net.nr.daemon.stats()["work"]
    assert work["flow-misses"] - before["flow-misses"] < 40, (before, work)


def test_without_its_route_an_inner_address_is_not_in_clear_elsewhere(deploy):
    """As before the tunnel's script has run: what is decrypted does not follow the default route back out of the backhaul."""
    net = deploy("2").net
    assert not net.sgw.ask(n.INNER_LTE, n.TEID_LTE, 10).lost
    wire = Capture(net.router, "cell")
    way = (f"{n.INNER_LTE}/32", "via", n.LTE, "dev", "lte")
    stream = Downlink(net, 1.5)
    time.sleep(0.4)
    net.nr.host.ip("route", "del", *way)
    time.sleep(0.4)
    at = changed(net.nr.host, "route", "add", *way)
    exchange = stream.finish()
    assert exchange.lost and net.nr.daemon.drops()["route-prohibited"] == exchange.lost, net.nr.daemon.drops()
    ended = max(exchange.sent[number] for number in exchange.sent if number not in exchange.delays)
    assert ended - time.monotonic() + time.time() - at < AT_ONCE_S
    assert not [frame for frame in wire.stop() if frame.kind not in SEALED]


def test_the_backhaul_goes_and_returns(deploy):
    """The router's side loses the link: nothing is negotiated anew, and packets pass as soon as it is there again."""
    net = deploy("2").net
    assert not net.sgw.ask(n.INNER_LTE, n.TEID_LTE, 10).lost
    spis = {child["spi-in"] for child in net.nr.swan.children()}
    wire = Capture(net.router, "core")
    stream = Downlink(net, 4)
    time.sleep(0.5)
    net.router.ip("link", "set", "cell", "down")
    time.sleep(1)
    net.router.ip("link", "set", "cell", "up")
    returned = time.monotonic()
    exchange = stream.finish()
    back = [exchange.sent[number] for number in exchange.delays if exchange.sent[number] > returned]
    first = min(back) - returned
    print(f"link up to the first packet that passed: {first * 1e3:.0f} ms")
    assert first < 2
    # From then on all of them pass.
    later = [number for number, at in exchange.sent.items() if at > returned + first + AT_ONCE_S]
    assert later and all(number in exchange.delays for number in later)
    assert {child["spi-in"] for child in net.nr.swan.children()} == spis
    frames = wire.stop()
    # The router says what it cannot reach.
    assert not [f for f in frames if f.kind not in SEALED and f.kind not in ("icmp", "nd")]
    IvRecord().add([f for f in frames if f.is_esp and str(f.src) == n.SEGW]).assert_no_repeat()
