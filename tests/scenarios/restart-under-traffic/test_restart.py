"""Crashes under traffic: ready means that packets pass."""

import os
import statistics
import threading
import time

import pytest
from lab import topology as t
from lab.base import PATIENCE_S
from lab.capture import Capture, IvRecord, assert_only_protected
from lab.traffic import ping

CRASHES = 3 if os.environ.get("CULVERT_SUITES") == "sample" else 10
INTERVAL_S = 0.01

#: What waits for a retry waits for a second: Linux's neighbour discovery, and culvert's own rounds.
RETRY_S = 1.0


class Pinging(threading.Thread):
    """Pings all the time until it is told to stop; then `each` says what became of each."""

    def __init__(self, host, to):
        super().__init__(daemon=True)
        self.host, self.to, self.stopping, self.each = host, to, False, []
        self.start()

    def run(self):
        # The last ones may be answered late; what was sent while nobody forwarded never is.
        self.each = ping(
            self.host, self.to, count=int(PATIENCE_S / INTERVAL_S), interval=INTERVAL_S,
            wait=2 * RETRY_S, until=lambda: self.stopping,
        )["each"]  # fmt: skip

    def stop(self):
        self.stopping = True
        self.join(PATIENCE_S)
        return sorted(self.each)


@pytest.mark.parametrize("side", ["gwa", "gwb"])
def test_packets_pass_when_it_is_ready(network, side):
    net = network().up()
    gateway = getattr(net, side)
    wire = Capture(net.mid, "west", snap=256)
    gaps = []
    for crash in range(CRASHES):
        pinging = Pinging(net.client, t.SERVER4)
        time.sleep(0.3)
        gateway.daemon.process.kill(9)
        # At once, as an operator without patience: it may still be dying.
        started = time.monotonic()
        gateway.daemon.start()
        ready = time.monotonic()
        time.sleep(0.5)
        drops = gateway.daemon.drops()
        each = pinging.stop()
        # The dying daemon may have answered some more: the gap is the longest.
        answers = sorted(at + took for at, took in each if took is not None)
        _, first = max(zip(answers, answers[1:]), key=lambda pair: pair[1] - pair[0])
        gap = first - started
        gaps.append(gap)
        print(f"crash {crash}: ready after {ready - started:.3f} s, first answer {gap:.3f} s")
        # Nothing was taken from Linux before there were tables to send it on by.
        assert drops.get("no-route", 0) == 0, drops
        after = [took for at, took in each if at > ready]
        lost = [took for took in after if took is None]
        assert after and not lost, f"{len(lost)} of {len(after)} sent after it was ready"
        assert statistics.median(after) < RETRY_S / 2, sorted(after)
    print(f"from start to first answer: {min(gaps):.3f} to {max(gaps):.3f} s")
    frames = wire.stop()
    assert_only_protected(frames)
    IvRecord().add(frames).assert_no_repeat()
