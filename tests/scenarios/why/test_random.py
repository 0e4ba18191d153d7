"""Each answer of `culvert why`, tried on the wire: random policies, default actions, marks and packets; the gateway's own,
forwarded, for the gateway, and decrypted."""

import dataclasses
import json
import os
import random
import socket
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.inject import Injector, ether
from lab.random_packets import IN, inner, lines, sealed, tag_in, tagged
from lab.random_policies import PORTS, SAS, TCP, UDP, UNIVERSES, Packet, policies
from lab.xfrm import setdefault

#: Packets of each family and kind of network; more are asked for by the environment, and other ones.
CASES = int(os.environ.get("CULVERT_WHY_CASES", "60")) // 4
SEED = os.environ.get("CULVERT_WHY_SEED", "1")

#: Packets to each set of policies.
PACKETS = 5

#: Linux's option of sockets; no Python has its name before 3.14.
SO_MARK = 36

#: Marks of policies, as `ip xfrm` has them, and of the gateway's own packets.
POLICY_MARKS = ("", "", "", "mark 1 mask 1", "mark 3 mask 255", "mark 0 mask 2", "mark 2 mask 2")
MARKS = (0, 0, 1, 2, 3, 7)

#: No policy is about it; the way there is gateway B's.
ELSEWHERE = {4: "198.51.100.9", 6: "2001:db8:e::9"}
#: Of gateway A and gateway B, on the wire between them.
WIRE = {4: (t.WAN_A4, t.WAN_B4), 6: (t.WAN_A6, t.WAN_B6)}


@dataclasses.dataclass(frozen=True)
class Case:
    """A packet, and the mark that its sender gives it."""

    packet: Packet
    mark: int = 0


def cases(dice, universe, count):
    """Packets of each origin: `own`, `out` of the client's site, `in` from the wire, in clear or by an SA."""
    here, there = WIRE[universe.family]
    for _ in range(count):
        origin = dice.choice(("own", "own", "out", "in", "in"))
        far = dice.choice((*universe.far_hosts, ELSEWHERE[universe.family]))
        near = dice.choice(universe.near_hosts)
        ports = (dice.choice((*PORTS, 9000)), dice.choice((*PORTS, 9000)))
        protocol = dice.choice((UDP, UDP, TCP, universe.icmp))
        if origin == "own":
            src, dst = dice.choice(((universe.own, far), (universe.own, far), (universe.own, near), (here, there)))
            yield Case(Packet("own", src, dst, UDP, ports), dice.choice(MARKS))
        elif origin == "out":
            yield Case(Packet("out", near, far, protocol, ports))
        else:
            sa = dice.randint(0, SAS)
            # Nobody sees what else has come to the gateway.
            pairs = ((far, near, protocol), (far, universe.own, UDP), (there, here, UDP))
            src, dst, protocol = dice.choice(pairs[: 2 if sa else 3])
            yield Case(Packet("in", src, dst, protocol, ports, sa))


def marked_policies(dice, universe):
    """Policies of which some have marks. No two have one priority: which of these is older the guard does not know."""
    chosen = policies(dice, universe)
    order = dice.sample(range(100, 1000), len(chosen))
    return [
        dataclasses.replace(policy, priority=priority, mark=dice.choice(POLICY_MARKS))
        for policy, priority in zip(chosen, order)
    ]


class Tries:
    """Asks about packets, sends them, and sees where they come out."""

    def __init__(self, net, universe):
        self.net, self.universe, self.daemon = net, universe, net.gwa.daemon
        gwa = net.gwa.host
        self.client, self.wire = Injector(net.client, "eth0"), Injector(net.mid, "west")
        self.macs = {
            "lan": (net.client.mac("eth0"), gwa.mac("lan")),
            "wan": (net.gwb.host.mac("wan"), gwa.mac("wan")),
        }
        here, there = WIRE[universe.family]
        gwa.route(ELSEWHERE[universe.family], "via", there)
        for address in universe.near_hosts:
            gwa.ip("neigh", "replace", address, "lladdr", self.macs["lan"][0], "dev", "lan")
        gwa.ip("neigh", "replace", there, "lladdr", self.macs["wan"][0], "dev", "wan")
        # Only the gateway under test has a say.
        for host in (net.gwb.host, net.client):
            host.sysctl("net.ipv4.ip_forward", 0)
            host.sysctl("net.ipv6.conf.all.forwarding", 0)
        self.sockets = {}
        family = socket.AF_INET if universe.family == 4 else socket.AF_INET6
        for address in (universe.own, here):
            for port in (*PORTS, 9000):
                sock = gwa.socket(family, socket.SOCK_DGRAM)
                sock.bind((address, port))
                sock.setblocking(False)
                self.sockets[address, port] = sock
        self.sequences = dict.fromkeys(range(SAS + 1), 0)

    def install(self, chosen, defaults):
        for what in ("policy", "state"):
            self.daemon.exec("ip", "xfrm", what, "flush")
        file = self.net.lab.tmp / "policies.batch"
        file.write_text("\n".join(lines(chosen, self.universe)) + "\n")
        self.daemon.exec("ip", "-batch", str(file))
        setdefault(self.daemon, defaults)
        wait_for("the policies", lambda: len(self.daemon.json("policy")) == len(chosen))

    def told(self, case):
        """What `culvert why` says becomes of it: `esp SPI`, `passes` or `stops`; and all that it says."""
        packet = case.packet
        ports = packet.ports
        if packet.protocol == self.universe.icmp:
            # An echo reply.
            ports = (129 if self.universe.family == 6 else 0, 0)
        args = ["--from", packet.src, "--to", packet.dst, "--proto", str(packet.protocol), "--sport", str(ports[0]),
                "--dport", str(ports[1]), "--len", str(len(inner(packet, 0)))]  # fmt: skip
        if packet.way == "out":
            args += ["--in", "lan"]
        elif packet.way == "in":
            args += ["--spi", f"{IN + packet.sa:#x}"] if packet.sa else ["--in", "wan"]
        elif case.mark:
            args += ["--mark", str(case.mark)]
        answer = json.loads(self.daemon.culvert("why", *args, "--json").stdout)
        fate = answer["fate"]
        if fate == "protected":
            spi = next(step["spi"] for step in answer["steps"] if step["question"] == "SA")
            return f"esp {int(spi, 16):#x}", answer
        return "passes" if fate in ("to-linux", "forwarded") else "stops", answer

    def send(self, case, tag):
        packet = case.packet
        if packet.way == "own":
            sock = self.sockets[packet.src, packet.ports[0]]
            sock.setsockopt(socket.SOL_SOCKET, SO_MARK, case.mark)
            try:
                sock.sendto(tagged(tag), (packet.dst, packet.ports[1]))
            except OSError:
                # Blocked: the sender is told.
                pass
        elif packet.way == "out":
            self.client.send(ether(*self.macs["lan"], inner(packet, tag)))
        else:
            self.sequences[packet.sa] += 1
            raw = sealed(packet, tag, self.sequences[packet.sa]) if packet.sa else inner(packet, tag)
            self.wire.send(ether(*self.macs["wan"], raw))

    def outcomes(self, chosen, first):
        """What became of each: `esp SPI`, `passes` or `stops`."""
        west = Capture(self.net.mid, "west", f"ether src {self.macs['wan'][1]}")
        client = Capture(self.net.client, "eth0", f"ether src {self.macs['lan'][1]}")
        for number, case in enumerate(chosen):
            self.send(case, first + number)
            time.sleep(0.002)
        time.sleep(0.3)
        seen = {}

        def note(data, where, ways):
            number = tag_in(data) - first
            # An ICMP error quotes a packet, and goes the other way.
            if 0 <= number < len(chosen) and chosen[number].packet.way in ways:
                seen.setdefault(number, set()).add(where)

        for frame in west.stop():
            note(frame.data, f"esp {frame.spi:#x}" if frame.is_esp else "passes", ("own", "out"))
        for frame in client.stop():
            note(frame.data, "passes", ("own", "in"))
        for sock in self.sockets.values():
            try:
                while data := sock.recv(4096):
                    note(data, "passes", ("in",))
            except BlockingIOError:
                pass
        return [" and ".join(sorted(seen.get(number, {"stops"}))) for number in range(len(chosen))]


@pytest.mark.parametrize("ports", ["wan lan", "wan"])
@pytest.mark.parametrize("family", [4, 6])
def test_what_is_told_is_what_happens(network, family, ports):
    """With the client's network at a port, and where Linux forwards from and to it."""
    net = network()
    net.gwa.daemon.ports = ports.split()
    net.gwa.daemon.write_config()
    net.gwa.daemon.start()
    universe = UNIVERSES[family]
    tries = Tries(net, universe)
    wrong, ends = [], set()
    for first in range(0, CASES, PACKETS):
        dice = random.Random(f"{SEED} {family} {ports} {first}")
        chosen = marked_policies(dice, universe)
        defaults = " ".join(f"{way} {dice.choice(('accept', 'accept', 'block'))}" for way in ("in", "fwd", "out"))
        sent = list(cases(dice, universe, min(PACKETS, CASES - first)))
        tries.install(chosen, defaults)
        told = [tries.told(case) for case in sent]
        for case, (says, answer), seen in zip(sent, told, tries.outcomes(sent, first)):
            ends.add((case.packet.way, says.split()[0]))
            if says != seen:
                wrong.append(f"set {first} ({defaults}): {case}: {seen!r}, and told {says!r}: {answer}")
    print(f"seed {SEED}, IPv{family}, ports {ports}, {CASES} packets")
    assert not wrong, f"{len(wrong)} of {CASES} packets (CULVERT_WHY_SEED={SEED}):\n" + "\n".join(wrong[:6])
    # Each origin was there, and some packets passed and others did not.
    assert {"own", "out", "in"} == {way for way, _ in ends}, ends
    assert {"passes", "stops"} <= {end for _, end in ends}, ends
