"""The differential test: random policies and packets, through the kernel alone and with culvert beside it."""

import random
import socket
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.inject import Injector, ether
from lab.random_packets import inner, lines, sealed, tag_in
from lab.random_policies import MARKS, SAS, UDP, UNIVERSES, packets, policies
from lab.xfrm import batch

#: Packets to each set of policies.
PACKETS = 60


def class_rules():
    """A chain that marks packets by their class, as `[[mark]]` does for culvert."""
    rules = "\n".join(
        f"    {ip} dscp {number} meta mark set {mark:#x}" for number, mark in enumerate(MARKS) if mark for ip in ("ip", "ip6")
    )
    return f"table inet marks {{\n  chain c {{\n    type filter hook prerouting priority mangle;\n{rules}\n  }}\n}}\n"


def class_config():
    marks = "".join(f"[[mark]]\ndscp = {number}\nmark = {mark}\n" for number, mark in enumerate(MARKS) if mark)
    return f'[kernel]\nfirewall = "bypass"\n{marks}'


def cuts_marks(host):
    """Whether the kernel cuts marks to their masks, as Linux does since 6.15, and older ones that were mended."""
    name = ("dir", "out", "src", "10.99.0.0/16", "dst", "10.99.0.0/16", "mark")
    host.ip("xfrm", "policy", "add", *name, "0xff", "mask", "0x0f", "action", "block")
    found = host.run("ip", "xfrm", "policy", "delete", *name, "0x0f", "mask", "0x0f", check=False).returncode == 0
    host.ip("xfrm", "policy", "flush")
    return found


class Runner:
    """Sends packets and sees where they come out."""

    def __init__(self, bed, universe):
        self.net = net = bed.net
        self.universe = universe
        self.client = Injector(net.client, "eth0")
        self.wire = Injector(net.mid, "west")
        self.macs = {
            "lan": (net.client.mac("eth0"), net.gwa.host.mac("lan")),
            "wan": (net.gwb.host.mac("wan"), net.gwa.host.mac("wan")),
        }
        self.listeners = []
        for port in (7001, 7002, 9000):
            family = socket.AF_INET if universe.family == 4 else socket.AF_INET6
            sock = net.gwa.host.socket(family, socket.SOCK_DGRAM)
            sock.bind((universe.own, port))
            sock.setblocking(False)
            self.listeners.append(sock)

    def outcomes(self, chosen, tag):
        """Where each packet of a list ended: `esp SPI`, `clear`, `delivered`, `local` or nothing."""
        west = Capture(self.net.mid, "west", f"ether src {self.macs['wan'][1]}")
        client = Capture(self.net.client, "eth0", f"ether src {self.macs['lan'][1]}")
        sequences = dict.fromkeys(range(SAS + 1), 0)
        for number, packet in enumerate(chosen):
            if packet.way == "out":
                self.client.send(ether(*self.macs["lan"], inner(packet, tag + number)))
            else:
                sequences[packet.sa] += 1
                raw = inner(packet, tag + number)
                if packet.sa:
                    raw = sealed(packet, tag + number, sequences[packet.sa])
                self.wire.send(ether(*self.macs["wan"], raw))
            time.sleep(0.002)
        time.sleep(0.2)
        found = {}
        for frame in west.stop():
            where = f"esp {frame.spi:#x}" if frame.is_esp else "clear"
            self.note(found, frame.data, where, tag, chosen, ("out",))
        for frame in client.stop():
            self.note(found, frame.data, "delivered", tag, chosen, ("in",))
        for sock in self.listeners:
            try:
                while data := sock.recv(4096):
                    self.note(found, data, "local", tag, chosen, ("in",))
            except BlockingIOError:
                pass
        # TCP and ICMP to the gateway itself leave nothing to see.
        return [
            found.get(number, "nothing")
            for number, packet in enumerate(chosen)
            if packet.dst != self.universe.own or packet.protocol == UDP
        ]

    def note(self, found, data, where, tag, chosen, ways):
        number = tag_in(data) - tag
        # An ICMP error quotes a packet, and goes the other way.
        if 0 <= number < len(chosen) and chosen[number].way in ways:
            found[number] = where if number not in found else f"{found[number]} and {where}"


def flush(net):
    for what in ("policy", "state"):
        net.gwa.host.ip("xfrm", what, "flush")


@pytest.mark.parametrize("marked", [False, True], ids=["plain", "marked"])
@pytest.mark.parametrize("family", [pytest.param(4, marks=pytest.mark.sample), 6])
def test_same_outcome_for_every_packet(bed, request, family, marked):
    """Random policies (in, out, fwd; protect, bypass, block; overlapping, with ties; with marks that have bits outside
    their masks) treat random packets the same with culvert as without: out by which SPI, in clear, delivered, or
    nowhere."""
    net, universe = bed.make(), UNIVERSES[family]
    if marked and not cuts_marks(net.gwa.host):
        pytest.skip("this kernel does not cut marks to their masks")
    if marked:
        net.gwa.host.run("nft", "-f", "-", stdin=class_rules())
        for gateway in bed.beside():
            gateway.daemon.settings = class_config()
            gateway.daemon.write_config()
    seed, sets = (request.config.getoption(name) for name in ("--random-seed", "--random-sets"))
    # Only the gateway under test has a say, and everybody is where he is looked for.
    for address in universe.near_hosts:
        net.gwa.host.ip("neigh", "replace", address, "lladdr", net.client.mac("eth0"), "dev", "lan")
    for host in (net.gwb.host, net.client):
        host.sysctl("net.ipv4.ip_forward", 0)
        host.sysctl("net.ipv6.conf.all.forwarding", 0)
    # The same numbers come again with each set of policies, under new SAs; and packets are to be refused.
    bed.is_judged = False
    runner = Runner(bed, universe)
    cases = []
    for number in range(sets):
        dice = random.Random(f"{seed} {number}")
        chosen = policies(dice, universe, marked)
        cases.append((chosen, list(packets(dice, universe, PACKETS, marked))))
    alone = [with_policies(bed, runner, case, number) for number, case in enumerate(cases)]
    ends = {outcome for outcomes in alone for outcome in outcomes}
    assert {"nothing", "clear", "delivered", "local"} < ends and any("esp" in end for end in ends), ends
    flush(net)
    bed.start(taken=False)
    wrong = []
    for number, case in enumerate(cases):
        with_culvert = with_policies(bed, runner, case, sets + number)
        seen = [p for p in case[1] if p.dst != universe.own or p.protocol == UDP]
        wrong += [
            f"set {number}: {packet}: {was!r} without culvert, {now!r} with it"
            for packet, was, now in zip(seen, alone[number], with_culvert)
            if was != now
        ]
    assert not wrong, f"{len(wrong)} of {sum(map(len, alone))} packets (seed {seed}): " + "; ".join(wrong[:6])
    # What went out by culvert's hand is no accident.
    assert bed.transmitted() >= sets or marked or not bed.beside()


def with_policies(bed, runner, case, number):
    """The outcomes of a set's packets."""
    chosen, sent = case
    flush(bed.net)
    batch(bed.net.gwa.host, *lines(chosen, runner.universe))
    if bed.beside() and bed.beside()[0].daemon.alive():
        daemon = bed.beside()[0].daemon
        wait_for("culvert to know the policies", lambda: len(daemon.json("policy")) == len(chosen), timeout=10)
        # An SA that no policy asks for stays where it is, and one of a policy with a mark.
        left = ("no policy", "stays with the kernel")
        taken = lambda: all(any(why in line for why in left) for line in bed.not_taken())  # noqa: E731
        wait_for("culvert to take over", taken, timeout=10)
        bed.settle()
    return runner.outcomes(sent, number * 1000)
