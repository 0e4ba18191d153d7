"""culvert dies or hangs under traffic, and the kernel goes on."""

import signal
import time

import pytest
from lab import topology as t
from lab.beside import SOON_S
from lab.traffic import assert_ping
from lab.xfrm import states


def both(bed):
    return bed.stream(most=0), bed.stream(t.CLIENT6, rate=100, port=7100, most=0)


@pytest.mark.parametrize(
    "plane", [pytest.param("beside+kernel", marks=pytest.mark.sample), "beside+beside"], indirect=True
)
def test_kill(bed):
    """After kill -9 under traffic the kernel goes on within a second in both directions, and a new culvert takes over
    again without a loss."""
    bed.up()
    bed.start()
    streams = both(bed)
    for _ in range(3):
        time.sleep(0.5)
        bed.note("kill")
        for gateway in bed.beside():
            gateway.daemon.kill9()
        time.sleep(SOON_S + 0.5)
        bed.pings(count=2)
        bed.start()
    time.sleep(0.5)
    # What the dead one had not told the kernel yet is not counted there.
    sent = [stream.rate for stream in streams]
    bed.survived(3, *streams)
    bed.assert_counted(3 * SOON_S * 2 * sum(sent))


def test_kill_soon_after_the_start(bed):
    """kill -9 at any moment of the start leaves a kernel that goes on, and no number is used twice."""
    bed.up()
    streams = both(bed)
    kills = 8
    for number in range(kills):
        for gateway in bed.beside():
            # Before it is ready, while it takes over, and after that.
            process = gateway.daemon.spawn()
            time.sleep(0.05 + 0.06 * number)
            process.kill(signal.SIGKILL)
            process.wait()
        time.sleep(SOON_S + 0.2)
        assert_ping(bed.net.client, t.SERVER4, count=2)
    bed.survived(kills, *streams)


def test_hang(bed):
    """A daemon that hangs (SIGSTOP) is passed by within a second in both directions, and goes on after SIGCONT."""
    bed.up()
    bed.start()
    # What the daemon had taken as it stopped leaves when it wakes, behind the kernel's numbers.
    bed.wire.may_be_late = True
    bed.excused |= {"XfrmInStateSeqError"}
    streams = both(bed)
    for _ in range(2):
        time.sleep(0.5)
        bed.note("SIGSTOP")
        for gateway in bed.beside():
            gateway.daemon.process.kill(signal.SIGSTOP)
        try:
            time.sleep(SOON_S + 1)
            bed.pings(count=2, wait=5)
        finally:
            # The end of a test that failed asks the daemon what it knows.
            bed.note("SIGCONT")
            for gateway in bed.beside():
                gateway.daemon.process.kill(signal.SIGCONT)
        bed.wait_taken()
    before = bed.transmitted()
    time.sleep(1)
    assert bed.transmitted() > before or not bed.beside()
    # As it wakes there may be one more interruption.
    bed.survived(4, *streams)
    # What the daemon had taken as it stopped it counts when it wakes, but the peer has had the kernel's later numbers. So
    # it is at each interruption.
    bed.assert_counted(4 * SOON_S * sum(stream.rate for stream in streams))


def test_a_machine_that_stands_still(bed):
    """When a machine stands still for longer than a heartbeat lasts, daemon, traffic and all, the kernel does not take
    packets over from a daemon that is well, and nothing is lost."""
    bed.up()
    bed.start()
    stream = bed.stream(rate=200)
    time.sleep(0.5)
    ends = {sa.spi: sa.oseq for g in bed.beside() for sa in states(g.host).values() if sa.src == t.WAN_A4}
    for _ in range(3):
        # The stream goes on first, as packets that wait in a machine are the first to be worked on.
        everybody = [stream.probe, stream.echo, *(gateway.daemon.process for gateway in bed.beside())]
        bed.note("still")
        for process in everybody:
            process.kill(signal.SIGSTOP)
        try:
            time.sleep(0.8)
        finally:
            bed.note("goes on")
            for process in everybody:
                process.kill(signal.SIGCONT)
        time.sleep(0.7)
    bed.perfect(stream)
    # The kernel's numbers are where they were, at the ends of the leases.
    for gateway in bed.beside():
        assert {spi: states(gateway.host)[spi].oseq for spi in ends} == ends


def test_nothing_is_taken_twice(bed):
    """ESP that was received before a crash is refused after it, by the kernel and by the next culvert."""
    from lab.capture import Capture
    from lab.inject import Injector
    from lab.traffic import ping

    net = bed.up()
    bed.start()
    # At the gateway with culvert: its inbound window has to survive.
    bare = Capture(net.mid, "west", f"ip and dst {t.WAN_A4} and proto 50")
    ping(net.server, t.CLIENT4, count=40, interval=0.005)
    old = [frame.data for frame in bare.stop() if frame.is_esp]
    assert len(old) >= 40
    time.sleep(SOON_S + 0.2)
    bed.excused |= {"XfrmInStateSeqError"}
    bed.wire.injected = set(old)
    for who in ("culvert", "the kernel", "the next culvert"):
        for gateway in bed.beside():
            if who == "the kernel":
                gateway.daemon.kill9()
            elif who == "the next culvert":
                gateway.daemon.start()
        arrived = Capture(net.client, "eth0", "icmp")
        wire = Injector(net.mid, "west")
        wire.send(*old)
        time.sleep(0.5)
        wire.close()
        assert arrived.stop() == [], who
    assert_ping(net.server, t.CLIENT4, count=5)
