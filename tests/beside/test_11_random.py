"""The differential test: random policies and packets, through the kernel alone and with culvert beside it."""

import hashlib
import hmac
import ipaddress
import random
import re
import socket
import struct
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.inject import Injector, ether, ipv4_checksum
from lab.random_policies import SAS, TCP, UDP, UNIVERSES, packets, policies
from lab.xfrm import batch, key

#: Packets to each set of policies.
PACKETS = 60

#: SPIs: out is 0x100 + number, in is 0x200 + number. NULL encryption, so that a capture can tell whose packet it is.
OUT, IN = 0x100, 0x200
ICV_LEN = 16

#: The outer tunnel is IPv4 for either family inside.
ENDS = (t.WAN_A4, t.WAN_B4)


def state(src, dst, spi, number, universe):
    # Without it the SA is for packets of the outer family alone.
    flag = "flag af-unspec" if universe.family == 6 else ""
    return (
        f"xfrm state add src {src} dst {dst} proto esp spi {spi:#x} reqid {number} mode tunnel replay-window 32 "
        f'{flag} enc "ecb(cipher_null)" "" auth-trunc "hmac(sha256)" {key(32, spi)} 128'
    )


def lines(chosen, universe):
    """The lines for `ip -batch` that install SAs and a set of policies."""
    for number in range(1, SAS + 1):
        yield state(*ENDS, OUT + number, number, universe)
        yield state(*ENDS[::-1], IN + number, number, universe)
    for policy in chosen:
        ends = ENDS if policy.direction == "out" else ENDS[::-1]
        template = f"tmpl src {ends[0]} dst {ends[1]} proto esp reqid {policy.sa} mode tunnel" if policy.sa else ""
        yield (
            f"xfrm policy add {policy.selector()} dir {policy.direction} priority {policy.priority} "
            f"action {policy.action} {template}"
        )


def ipv4(src, dst, protocol, body):
    header = bytearray(struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0))
    header += ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
    struct.pack_into("!H", header, 10, ipv4_checksum(bytes(header)))
    return bytes(header) + body


def ipv6(src, dst, protocol, body):
    header = struct.pack("!IHBB", 6 << 28, len(body), protocol, 64)
    return header + ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed + body


def is_v6(packet):
    return ":" in packet.src


def udp6(packet, body):
    """UDP over IPv6, which has to have a checksum (RFC 8200, section 8.1)."""
    length = 8 + len(body)
    pseudo = ipaddress.ip_address(packet.src).packed + ipaddress.ip_address(packet.dst).packed
    pseudo += struct.pack("!IxxxB", length, UDP)
    header = struct.pack("!HHHH", *packet.ports, length, 0)
    odd = b"\0" * (length % 2)
    return header[:6] + struct.pack("!H", ipv4_checksum(pseudo + header + body + odd) or 0xFFFF)


def inner(packet, tag):
    """The IP packet, with its number in it."""
    body = b"TAG%06d." % tag
    if packet.protocol == UDP and is_v6(packet):
        upper = udp6(packet, body)
    elif packet.protocol == UDP:
        upper = struct.pack("!HHHH", *packet.ports, 8 + len(body), 0)
    elif packet.protocol == TCP:
        # A segment of no connection; nobody looks at its checksum on the way.
        upper = struct.pack("!HHIIBBHHH", *packet.ports, tag, 0, 0x50, 0x10, 100, 0, 0)
    else:
        # An echo reply: the gateway itself does not answer it.
        upper = struct.pack("!BBHI", 129 if is_v6(packet) else 0, 0, 0, tag)
    make = ipv6 if is_v6(packet) else ipv4
    return make(packet.src, packet.dst, packet.protocol, upper + body)


def sealed(packet, tag, sequence):
    """In ESP with NULL encryption (RFC 2410) and HMAC-SHA-256-128 (RFC 4868), in tunnel mode."""
    spi = IN + packet.sa
    text = inner(packet, tag)
    pad = -(len(text) + 2) % 4
    next_header = 41 if is_v6(packet) else 4
    body = struct.pack("!II", spi, sequence) + text + bytes(range(1, pad + 1)) + bytes([pad, next_header])
    secret = bytes.fromhex(key(32, spi)[2:])
    icv = hmac.digest(secret, body, hashlib.sha256)[:ICV_LEN]
    return ipv4(t.WAN_B4, t.WAN_A4, 50, body + icv)


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
        match = re.search(rb"TAG(\d{6})\.", data)
        number = int(match[1]) - tag if match else -1
        # An ICMP error quotes a packet, and goes the other way.
        if 0 <= number < len(chosen) and chosen[number].way in ways:
            found[number] = where if number not in found else f"{found[number]} and {where}"


def flush(net):
    for what in ("policy", "state"):
        net.gwa.host.ip("xfrm", what, "flush")


@pytest.mark.parametrize("family", [pytest.param(4, marks=pytest.mark.sample), 6])
def test_same_outcome_for_every_packet(bed, request, family):
    """Random policies (in, out, fwd; protect, bypass, block; overlapping, with ties) treat random packets the same with
    culvert as without: out by which SPI, in clear, delivered, or nowhere."""
    net, universe = bed.make(), UNIVERSES[family]
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
        cases.append((policies(dice, universe), list(packets(dice, universe, PACKETS))))
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
    assert bed.transmitted() >= sets or not bed.beside()


def with_policies(bed, runner, case, number):
    """The outcomes of a set's packets."""
    chosen, sent = case
    flush(bed.net)
    batch(bed.net.gwa.host, *lines(chosen, runner.universe))
    if bed.beside() and bed.beside()[0].daemon.alive():
        daemon = bed.beside()[0].daemon
        wait_for("culvert to know the policies", lambda: len(daemon.json("policy")) == len(chosen), timeout=10)
        # An SA that no policy asks for stays where it is.
        taken = lambda: all("no policy" in line for line in bed.not_taken())  # noqa: E731
        wait_for("culvert to take over", taken, timeout=10)
        bed.settle()
    return runner.outcomes(sent, number * 1000)
