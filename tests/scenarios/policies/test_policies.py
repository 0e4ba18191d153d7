"""What Linux's selftest xfrm_policy.sh asks of the kernel: which of the policies that overlap decides.

Between the two networks everything is protected, by a policy for the networks and, for one pair of hosts, by
one of its own. Another pair is let pass in clear. Who passes how is seen on the wire.
"""

import ipaddress
import random

from lab import topology as t
from lab.capture import Capture
from lab.traffic import assert_ping

#: The last byte of a host's address, and whether its packets are protected.
PROTECTED, DIRECT, EXCEPTION = 10, 253, 254
SEED = 7


def ends(n):
    return f"10.1.0.{n}/32", f"10.2.0.{n}/32"


def policies(here, there, local, remote, priority, *, protected=True):
    """All of a gateway's policies for what goes from `local` to `remote` and back."""
    lines = []
    for direction in ("out", "in", "fwd"):
        out = direction == "out"
        src, dst = (local, remote) if out else (remote, local)
        line = f"xfrm policy add src {src} dst {dst} dir {direction} priority {priority}"
        if protected:
            tunnel = f"src {here} dst {there}" if out else f"src {there} dst {here}"
            line += f" tmpl {tunnel} proto esp reqid 1 mode tunnel"
        lines.append(line)
    return lines


class Policies:
    """One gateway's databases, changed by `ip xfrm`."""

    def __init__(self, gateway, here, there, side):
        self.daemon, self.host = gateway.daemon, gateway.host
        self.here, self.there, self.side = here, there, side

    def batch(self, lines):
        file = self.host.lab.tmp / f"{self.host.name}.xfrm"
        file.write_text("\n".join(lines) + "\n")
        self.daemon.exec("ip", "-batch", file)

    def states(self):
        self.batch(
            f"xfrm state add src {src} dst {dst} proto esp spi {spi:#x} reqid 1 mode tunnel "
            f"aead rfc4106(gcm(aes)) 0x{spi:040x} 128 replay-window 64"
            for spi, src, dst in ((0x1000, t.WAN_A4, t.WAN_B4), (0x2000, t.WAN_B4, t.WAN_A4))
        )

    def add(self, pair, priority, **how):
        """Returns the requests for policies between a prefix on each side."""
        local, remote = pair if self.side == 0 else pair[::-1]
        return policies(self.here, self.there, local, remote, priority, **how)

    def usual(self):
        return [
            *self.add(("10.1.0.0/24", "10.2.0.0/24"), 100),
            *self.add(ends(DIRECT), 10),
            *self.add(ends(EXCEPTION), 10, protected=False),
        ]

    def nested(self):
        """Policies for smaller and smaller prefixes, all behind the others in order: they decide nothing."""
        for length in {*range(15, 33)} - {24}:
            pair = f"10.1.0.{EXCEPTION}/{length}", f"10.2.0.{DIRECT}/{length}"
            net = [str(ipaddress.ip_network(prefix, strict=False)) for prefix in pair]
            yield from self.add(net, 1000 + length, protected=length % 2 == 0)


def made(network):
    net = network(ts_a="10.1.0.0/24", ts_b="10.2.0.0/24")
    for n in (DIRECT, EXCEPTION):
        net.client.address("eth0", f"10.1.0.{n}/24")
        net.server.address("eth0", f"10.2.0.{n}/24")
    both = [
        Policies(net.gwa, t.WAN_A4, t.WAN_B4, 0),
        Policies(net.gwb, t.WAN_B4, t.WAN_A4, 1),
    ]
    for gateway in net.gateways():
        gateway.daemon.start()
    for side in both:
        side.states()
    return net, both


def check(net):
    """Each pair of hosts, both ways: protected or in clear, as it is to be."""
    for n, kinds in ((PROTECTED, {"esp"}), (DIRECT, {"esp"}), (EXCEPTION, {"icmp"})):
        wire = Capture(net.mid, "west", "esp or icmp")
        assert_ping(net.client, f"10.2.0.{n}", source=f"10.1.0.{n}", count=2)
        assert_ping(net.server, f"10.1.0.{n}", source=f"10.2.0.{n}", count=2)
        frames = wire.stop()
        assert len(frames) == 8 and {frame.kind for frame in frames} == kinds, (n, frames)


def test_exceptions(network):
    net, both = made(network)
    for side in both:
        side.batch(side.usual())
    check(net)
    # Policies behind these in order, that overlap all of them.
    for side in both:
        side.batch(side.nested())
    check(net)
    # Removed one by one, from the narrowest on.
    for side in both:
        nested = reversed(list(side.nested()))
        side.batch(line.split(" priority")[0].replace(" add ", " delete ") for line in nested)
    check(net)


def test_hash_thresholds_change_nothing(network):
    """`ip xfrm policy set hthresh4` is how Linux is told to sort its tables: culvert's need no hint."""
    net, both = made(network)
    for side in both:
        side.batch(side.usual())
    for local, remote in ((32, 32), (0, 0), (16, 28), (32, 0), (24, 24)):
        for side in both:
            side.daemon.exec("ip", "xfrm", "policy", "set", "hthresh4", str(local), str(remote))
        check(net)
    # Set before, between and after the policies of a new set.
    for side in both:
        side.daemon.exec("ip", "xfrm", "policy", "flush")
        side.batch(side.usual()[:3])
        side.daemon.exec("ip", "xfrm", "policy", "set", "hthresh4", "28", "28")
        side.batch(side.usual()[3:])
    check(net)


def test_any_order(network):
    """The same policies, installed in another order each time and under traffic."""
    net, both = made(network)
    chance = random.Random(SEED)
    for _ in range(5):
        for side in both:
            lines = [*side.usual(), *side.nested()]
            chance.shuffle(lines)
            side.daemon.exec("ip", "xfrm", "policy", "flush")
            side.batch(lines)
        check(net)
