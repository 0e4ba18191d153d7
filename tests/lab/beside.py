"""A bed for culvert beside the kernel: the kernel owns the SAs, culvert takes them over and gives them back, and the
wire between the gateways is watched from the first packet to the last."""

import time

from . import topology as t
from .base import wait_for
from .traffic import Stream, assert_perfect, assert_ping
from .wire import Wire
from .xfrm import errors, states

#: How many packets of a stream wait for an answer, in all less than any queue on the way holds.
MOST_UNDER_WAY = 48

#: How soon the kernel must know what the fast path did, and go on where that ends (seconds).
SOON_S = 1.0


def is_fast(sa):
    """Whether a line of `culvert sa --json` says that the fast path has the SA."""
    return "kernel" not in sa["placement"]


def reason(sa):
    """Why the kernel has it, in the words of `culvert sa --json`."""
    return sa.get("reason") or sa.get("why") or sa.get("placement_reason") or ""


def stay(gateway, *words, spis=None):
    """Waits, as long as the kernel may take to know, until no SA is in the fast path and all say why; or those with
    certain SPIs."""

    def left():
        shown = {int(sa["spi"], 16): sa for sa in gateway.daemon.json("sa")}
        return all(
            spi in shown and not is_fast(shown[spi]) and all(word in reason(shown[spi]) for word in words)
            for spi in (states(gateway.host) if spis is None else spis)
        )

    wait_for(f"SAs to stay with the kernel because of {words}", left, timeout=SOON_S + 0.5)


class Bed:
    """Made by the fixture `bed`. `make` or `up` first, then `start` for culvert, as often as wanted."""

    def __init__(self, make_network):
        self.make_network = make_network
        self.net = self.wire = None
        #: What was done when, by the monotonic clock: it says what a loss goes with.
        self.events = []
        #: Names of /proc/net/xfrm_stat that may move.
        self.excused = set()
        #: False: neither wire nor statistics are judged at the end.
        self.is_judged = True

    # Networks

    def make(self, kind=None, build=None, **values):
        """The network, with nothing running yet but the capture between the gateways."""
        self.net = self.make_network(kind, build, **values)
        protected = () if self.net.kind == "host2host" else t.PROTECTED
        self.wire = Wire(self.net.mid, protected=protected)
        return self.net

    def up(self, kind=None, build=None, **values):
        """A tunnel that charon made and that is the kernel's."""
        net = self.make(kind, build, **values).up()
        if kind != "host2host":
            assert_ping(net.client, t.SERVER4, count=2)
        return net

    # culvert

    def beside(self):
        """The gateways with a culvert daemon."""
        return [g for g in self.net.gateways() if g.daemon]

    def start(self, taken=True):
        """Starts culvert at all gateways that have it; with `taken` it waits until all SAs are in the fast path."""
        self.note("start")
        for gateway in self.beside():
            gateway.daemon.start()
        self.note("ready")
        if taken:
            self.wait_taken()
            self.note("taken")

    def stop(self):
        """Has culvert stop in order."""
        self.note("stop")
        for gateway in self.beside():
            status = gateway.daemon.stop()
            assert status == 0, f"culvert on {gateway.host.name} ended with {status}"
        self.note("stopped")

    def note(self, what):
        """Remembers that something was done now."""
        self.events.append((time.monotonic(), what))

    def losses(self, stream, report):
        """Where a stream has gaps, and how long after which event, as text."""
        # A machine that is busy sends more slowly than it was told.
        pace = (stream.ended - stream.begun) / max(report["sent"], 1)
        for way in ("there", "back"):
            for first, count in report[way].get("gaps", []):
                at = stream.begun + first * pace
                before = [(when, what) for when, what in self.events if when <= at]
                when, what = before[-1] if before else (at, "the beginning")
                yield f"{way}: {count} lost from {first}, about {at - when:.1f} s after {what!r}"

    def not_taken(self):
        """What keeps the kernel's SAs from being all in the fast path, as text."""
        for gateway in self.beside():
            shown = {int(sa["spi"], 16): sa for sa in gateway.daemon.json("sa")}
            for spi in states(gateway.host):
                if spi not in shown:
                    yield f"{gateway.host.name}: culvert does not know the SA {spi:#010x}"
                elif not is_fast(shown[spi]):
                    yield f"{gateway.host.name}: the kernel has the SA {spi:#010x}: {reason(shown[spi])!r}"

    def wait_taken(self, timeout=10):
        """Waits until the fast path has all SAs that the kernel knows."""
        end = time.monotonic() + timeout
        while left := list(self.not_taken()):
            assert time.monotonic() < end, "; ".join(left)
            time.sleep(0.1)

    def placement(self, gateway, spi):
        """The line of `culvert sa --json` for an SPI; waits until it is there."""

        def line():
            return next((sa for sa in gateway.daemon.json("sa") if int(sa["spi"], 16) == spi), None)

        return wait_for(f"culvert to know {spi:#010x}", line, timeout=10)

    def settle(self):
        """Gives culvert a moment to carry out what the kernel was told, and packets one to arrive."""
        time.sleep(0.3)

    def transmitted(self):
        """Packets that the fast path sent out of a port, at all gateways that have one."""
        running = [g.daemon for g in self.beside() if g.daemon.alive()]
        return sum(daemon.stats()["outcomes"]["transmitted"] for daemon in running)

    # Traffic

    def crossings(self, *streams, times=2, moved=400):
        """Starts and stops culvert under traffic: each time the fast path has the packets, more than `moved` of them,
        and in the end no packet of the streams was lost."""
        for _ in range(times):
            self.start()
            before = self.transmitted()
            time.sleep(1)
            wait_for("the fast path to have the packets", lambda b=before: (
                self.transmitted() - b > moved or not self.beside()
            ), timeout=10)  # fmt: skip
            self.assert_ahead()
            self.stop()
            time.sleep(0.5)
        self.perfect(*streams)

    def stream(self, to=t.SERVER4, rate=250, **how):
        """A stream from the client to the server and back; the other way round for the client's addresses."""
        net = self.net
        ends = (net.server, net.client) if to in (t.CLIENT4, t.CLIENT6) else (net.client, net.server)
        return self.between(*ends, to, rate=rate, **how)

    def between(self, near, far, to, **how):
        """A stream between two hosts of which nothing is to be lost. With `most=0` it keeps its rate whatever is lost, as
        `survived` wants."""
        return Stream(near, far, to, **{"most": MOST_UNDER_WAY, **how})

    def pings(self, count=5, **how):
        """Both directions, both families."""
        for near, to in (
            (self.net.client, t.SERVER4), (self.net.server, t.CLIENT4),
            (self.net.client, t.SERVER6), (self.net.server, t.CLIENT6),
        ):  # fmt: skip
            assert_ping(near, to, count=count, **how)

    def perfect(self, *streams):
        """Ends streams: nothing was lost or doubled."""
        reports = [(stream, stream.finish()) for stream in streams]
        wrong = [f"port {stream.port}: {loss}" for stream, report in reports for loss in self.losses(stream, report)]
        assert not wrong, f"{len(wrong)} gaps: {'; '.join(wrong)}; {self.refused()}"
        for _, report in reports:
            assert_perfect(report)

    def refused(self):
        """What the kernels and running daemons count as errors, as text: it says where a loss was."""
        gateways = self.net.gateways()
        kernels = {g.host.name: errors(g.host) for g in gateways}
        running = {
            g.host.name: {n: v for n, v in g.daemon.drops().items() if v} for g in self.beside() if g.daemon.alive()
        }
        return f"xfrm_stat {kernels}, drops {running}"

    def survived(self, gaps, *streams):
        """Ends streams: nothing was doubled, and in none of `gaps` interruptions longer than `SOON_S` was there
        silence."""
        # One that waits for answers would lose little in a long silence.
        assert not any(stream.most for stream in streams)
        for stream in streams:
            report = stream.finish()
            losses = list(self.losses(stream, report))
            rate = stream.rate
            for way in ("there", "back"):
                got = report[way]
                assert got["received"] > 0 and got["duplicated"] == 0, (way, report)
                assert got["longest_gap"] <= rate * SOON_S, (way, losses)
                assert got["lost"] <= gaps * rate * SOON_S, (way, losses)

    # What the kernel knows

    def assert_counted(self, missing=2):
        """The kernels' counters of every SA are the same at both gateways, once nothing is under way: only one of
        them has culvert, so the other's are Linux's own. With `missing`, so many packets may not be counted: what the
        kernel counts between a reading and `NEWAE`, which writes absolute values, is lost at a crossing."""
        a, b = self.net.gwa.host, self.net.gwb.host

        def differ():
            one, two = states(a), states(b)
            return [
                f"{spi:#010x}: {one[spi].bytes} bytes, {one[spi].packets} packets on gwa, "
                f"{two[spi].bytes}, {two[spi].packets} on gwb"
                for spi in one.keys() & two.keys()
                if abs(one[spi].packets - two[spi].packets) > missing
                or not missing and one[spi].bytes != two[spi].bytes
            ]

        time.sleep(SOON_S + 0.2)
        assert states(a).keys() == states(b).keys(), (states(a), states(b))
        wrong = differ()
        assert not wrong, "; ".join(wrong)

    def assert_ahead(self):
        """The kernel could go on at any moment: its outbound numbers are beyond all that were on the wire."""
        numbers = self.wire.record().numbers
        for gateway in self.beside():
            known = states(gateway.host)
            for (_, spi), seen in numbers.items():
                if spi in known and known[spi].src in self._addresses(gateway):
                    assert known[spi].oseq >= max(seen), (hex(spi), known[spi], max(seen))

    def _addresses(self, gateway):
        text = gateway.host.ip("-o", "addr", "show").stdout
        return {word.split("/")[0] for word in text.split() if "/" in word}

    # The end

    def finish(self):
        """Judges the wire and the kernels' statistics."""
        if self.net is None or not self.is_judged:
            return
        self.wire.check()
        for gateway in self.net.gateways():
            counted = {n: v for n, v in errors(gateway.host).items() if n not in self.excused}
            assert not counted, f"/proc/net/xfrm_stat of {gateway.host.name}: {counted}"
