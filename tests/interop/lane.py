"""Where the cases run: culvert against the kernel of a guest.

    client --lan-- gwa, with culvert --wan-- gwb, the guest; SERVER is an address of its own

A lane runs one case after the other; several lanes run side by side.
"""

import itertools
import json
import time
from pathlib import Path

from lab import topology as t
from lab.base import LabError, wait_for
from lab.guest import Guest
from lab.planes import PLANES
from lab.traffic import PYTHON

from .cases import CULVERT, KERNEL, MARK, MARKED_DSCP, batch
from .pings import pings

#: What an error says when a packet is too big: the system's words, or the pinger's.
TOO_BIG = ("Message too long", "packet too big", "destination unreachable, code 4")

#: The program on the kernel's side.
FAR = Path(__file__).with_name("far.py")

#: DES, 3DES and MD5 are among the suites; what a port brings with this DSCP has the mark.
_MORE = f"""
[crypto]
allow_weak = true

[[mark]]
dscp = {MARKED_DSCP}
mark = {MARK}
"""

#: An answer has the mark of what is answered.
_REFLECT = ("net.ipv4.fwmark_reflect=1", "net.ipv6.fwmark_reflect=1")

#: How long a ping may take before it counts as lost. Long for a network in memory, on a busy machine.
PING_S = 4


class Lane:
    """One culvert and one guest, in one lab."""

    def __init__(self, lab, kernel):
        self.lab = lab
        self.net = net = t.Network(lab, "guest")
        net.client, a = lab.host("client"), lab.host("gwa", forward=True)
        self.guest = b = Guest(lab, "gwb", kernel)
        lab.link(net.client, "eth0", a, "lan", offload=False)
        lab.link(a, "wan", b.box, "wan", offload=False)
        net.client.address("eth0", f"{t.CLIENT4}/24", f"{t.CLIENT6}/64")
        net.client.route("default", "via", t.LAN_A4)
        net.client.route("default", "via", t.LAN_A6)
        a.address("lan", f"{t.LAN_A4}/24", f"{t.LAN_A6}/64")
        a.address("wan", f"{t.WAN_A4}/24", f"{t.WAN_A6}/64")
        a.route("10.2.0.0/24", "via", t.WAN_B4)
        a.route("2001:db8:2::/64", "via", t.WAN_B6)
        a.run("sysctl", "-qw", *_REFLECT)
        net.gwa = t.Gateway(a, PLANES["culvert"], ["wan", "lan"])
        net.gwb = t.Gateway(b, PLANES["kernel"], ["wan"])
        net.server = b
        self._far = None
        self._requests = None
        self._folder = None

    def start(self):
        """Boots the guest and starts culvert. For the main thread: what is started in another ends
        with that thread."""
        self.guest.start("wan", wait=False)
        daemon = self.net.gwa.daemon
        daemon.config.write_text(daemon.config.read_text() + _MORE)
        daemon.start()

    def wait_up(self):
        """Waits for the guest, and gives it its addresses."""
        self.guest.wait_up()
        self.guest.run(
            "set -e\n"
            "ip link set wan up; ip link add lan type dummy; ip link set lan up\n"
            f"ip addr add {t.WAN_B4}/24 dev wan; ip addr add {t.WAN_B6}/64 dev wan nodad\n"
            f"ip addr add {t.SERVER4}/24 dev lan; ip addr add {t.SERVER6}/64 dev lan nodad\n"
            f"ip route add 10.1.0.0/24 via {t.WAN_A4} src {t.SERVER4}\n"
            f"ip -6 route add 2001:db8:1::/64 via {t.WAN_A6} src {t.SERVER6}\n"
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1\n"
            "sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0\n"
            f"sysctl -qw {' '.join(_REFLECT)}"
        )

    # Static SAs

    def far_up(self):
        """Starts the program on the kernel's side, if it does not run."""
        if self._far is None:
            self._folder = self.lab.tmp / f"far-{time.monotonic_ns()}"
            self._folder.mkdir()
            self._requests = itertools.count(1)
            self._far = self.guest.spawn(PYTHON, FAR, self._folder, t.WAN_B4, t.WAN_B6)
            self._far.wait_output("ready")

    def far_down(self):
        """Stops it: port 4500 is an IKE daemon's then."""
        if self._far is not None:
            self._far.stop()
            self._far = None

    def _ask(self, do, **arguments):
        """Asks the program on the kernel's side; returns what waits for its answer."""
        number = next(self._requests)
        part = self._folder / f"{number}.asked"
        part.write_text(json.dumps({"do": do, **arguments}))
        part.rename(self._folder / f"{number}.request")
        answer = self._folder / f"{number}.answer"

        def done():
            if not self._far.alive() and not answer.exists():
                raise LabError(f"far.py ended:\n{self._far.output()}\n{self.guest.console()}")
            return answer.exists()

        def result():
            wait_for(f"{do} in the guest", done, step=0.005)
            return json.loads(answer.read_text())

        return result

    def static(self, case, serial):
        """Runs a case; returns a list of what is wrong with it."""
        self.far_up()
        daemon = self.net.gwa.daemon
        theirs = self._ask("install", batch=batch(case, serial, KERNEL, CULVERT))
        file = self.lab.tmp / "batch"
        file.write_text(batch(case, serial, CULVERT, KERNEL))
        done = daemon.exec("ip", "-batch", file, check=False)
        if done.returncode or done.stderr or done.stdout:
            theirs()
            return [f"culvert refuses it: {_short(done.stdout + done.stderr)}"]
        if said := theirs():
            return [f"the kernel refuses it: {_short(said)}"]

        if case.mode == "tunnel":
            near, here, there = self.net.client, CULVERT.inner[case.inner], KERNEL.inner[case.inner]
        else:
            near, here, there = self.net.gwa.host, CULVERT.outer[case.outer], KERNEL.outer[case.outer]
        # Whose pings, and how to send them: a call that returns what waits for the results. The
        # guest's are sent when that is made, ours when it is waited for: both at the same time.
        sides = {
            "kernel": lambda sizes, **how: self._ask("ping", to=here, how={"sizes": sizes, **how}),
            "culvert": lambda sizes, **how: lambda: pings(near, there, sizes, **how),
        }
        if learn := case.too_big or case.sizes * (case.df is False):
            # Path MTU discovery: each side has to be told once.
            for send in sides.values():
                send(learn, count=1, df=case.df, wait=0.3)()
        # Hosts behind ports have no marks: their gateway gives them one by the DSCP, which answers have too.
        marked = {"mark": case.mark, "dscp": MARKED_DSCP} if case.mark else {}
        stood = daemon.drops()
        before = self._ask("counters")()
        bad = []
        waiting = {
            name: send(case.sizes, df=case.df, wait=PING_S, noise=case.noise, **marked)
            for name, send in sides.items()
        }
        for name, results in reversed(waiting.items()):
            for got in results():
                if got["received"] != got["sent"] or got["duplicates"] or got["errors"]:
                    bad.append(f"from {name}'s side: {got['text']}")
        after = self._ask("counters")()
        bad += self._counted(case, before, after, daemon, stood)
        for name, send in sides.items() if case.too_big else ():
            for got in send(case.too_big, count=1, df=True, wait=0.3)():
                if not any(word in error for error in got["errors"] for word in TOO_BIG):
                    bad.append(f"from {name}'s side: no word that it is too big: {got['text']}")
        return bad

    def _counted(self, case, before, after, daemon, stood):
        """All packets went through the kernel's SAs, and nobody dropped any."""
        # Requests of one side and answers to the other's, three of each size.
        wanted = 2 * 3 * len(case.sizes)
        counted = [b - a for a, b in zip(before["packets"], after["packets"])]
        # With AH around each is an SA of its own.
        if len(counted) != (4 if case.around else 2) or min(counted) < wanted:
            yield f"the kernel's SAs counted {counted} packets, not {wanted}"
        if case.comp:
            yield from self._compressed(case, before, after)
        for name, value in after["errors"].items():
            if value != before["errors"][name]:
                yield f"the kernel counts {name} {value - before['errors'][name]}"
        for name, value in daemon.drops().items():
            if value != stood.get(name, 0):
                yield f"culvert drops {name} {value - stood.get(name, 0)}"


    def _compressed(self, case, before, after):
        """What compression makes shorter came compressed, all else did not."""
        # The one that is sent by counts what it tries, the other what was compressed.
        compressed = [b - a for a, b in zip(before["compressed"], after["compressed"])]
        long = 0 if case.noise else 2 * 3 * sum(size >= 100 for size in case.sizes)
        # Of a short packet enough may be headers, which become shorter whatever is in it.
        either = 2 * 3 * sum(50 <= size < 200 for size in case.sizes)
        is_too_much = case.noise and min(compressed) > either
        if len(compressed) != 2 or min(compressed) < long or is_too_much:
            yield f"the kernel's SAs of IPComp counted {compressed} packets, not {long}"
        plain = sum(after["plain"]) - sum(before["plain"])
        short = 2 * 3 * sum(size < 50 or case.noise for size in case.sizes) - either
        if case.mode == "tunnel" and plain < short:
            yield f"the kernel's SAs of IP in IP counted {plain} packets, not {short}"


def _short(text):
    return " ".join(text.split())[:200]
