"""culvert starts and stops under traffic, and nobody notices."""

import os
import time
from datetime import datetime, timedelta

import pytest
from lab import topology as t
from lab.beside import SOON_S
from lab.xfrm import policy_uses, states


@pytest.mark.parametrize(
    "plane", [pytest.param("beside+kernel", marks=pytest.mark.sample), "beside+beside"], indirect=True
)
def test_start_and_stop_under_traffic(bed):
    """culvert takes over the SAs of a tunnel in use and gives them back, and no packet is lost either time."""
    bed.up()
    streams = bed.stream(), bed.stream(t.CLIENT6, rate=100, port=7100)
    time.sleep(0.5)
    # Two streams there and back, of which the fast path of one gateway has all.
    bed.crossings(*streams)


def assert_recent(uses):
    """Policies were used a moment ago. (Of an SA the kernel shows its first use, of a policy its last.)"""
    used = [use for use in uses if use]
    assert used and datetime.now() - max(used) < timedelta(seconds=4), uses


def test_the_kernels_figures(bed):
    """`ip -s xfrm state` shows bytes, packets and last use within a second while the fast path does the work."""
    net = bed.up()
    bed.start()
    stream = bed.stream()
    for _ in range(3):
        time.sleep(SOON_S)
        # The peer's kernel tells the truth; what it had counted by then, culvert's must know a second later.
        then = states(net.gwb.host)
        time.sleep(SOON_S + 0.1)
        now = states(net.gwa.host)
        for spi, sa in then.items():
            assert now[spi].packets >= sa.packets and now[spi].bytes >= sa.bytes, (now[spi], sa)
            assert now[spi].used, now[spi]
        assert_recent(policy_uses(net.gwa.host, "in", "fwd"))
        bed.assert_ahead()
    bed.perfect(stream)
    bed.assert_counted()
    bed.stop()
    bed.assert_counted()
    bed.pings()


def test_no_traffic(bed):
    """An SA that was never used is taken and given back, and its first packets go, by either owner."""
    net = bed.make().start()
    net.gwa.swan.initiate()
    bed.start()
    # The kernel's GRO may stand in front of packet sockets: they are not chosen.
    chosen = {p["chosen"]: p["kind"] for p in net.gwa.daemon.json("port") if "chosen" in p}
    assert os.environ.get("CULVERT_PORTS") or list(chosen.values()) == ["af-xdp"], chosen
    assert all("the kernel owns the SAs" in why for why in chosen), chosen
    bed.stop()
    bed.pings(count=2)
    bed.start()
    bed.pings(count=2)
    bed.assert_counted()


def test_sas_that_come_later(bed):
    """culvert that started before there was an SA takes over those that charon installs."""
    net = bed.make()
    bed.start(taken=False)
    net.up()
    bed.pings()
    bed.wait_taken()
    stream = bed.stream(count=500)
    stream.wait()
    bed.perfect(stream)


def test_many_times(bed):
    """Ten starts and stops in a row under traffic lose nothing and repeat nothing."""
    bed.up()
    streams = bed.stream(), bed.stream(t.CLIENT4, rate=150, port=7200)
    for _ in range(10):
        bed.start()
        bed.stop()
    bed.perfect(*streams)
    # Two for each crossing.
    bed.assert_counted(2 * 2 * 10)
