"""Bench for the cutter: every skip of packets of every length, against slices of Python."""

import beat
import cocotb
from cocotb.triggers import RisingEdge
from stream import Sink, Source, start, wait_for

MAX_SKIP = 64


async def set_up(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "skip": dut.in_skip_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i, {"beat": dut.out_beat_o}, stall)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    return source, sink


def put(source, packet, skip):
    """Offers a packet; returns what is left of it."""
    for value in beat.beats(packet):
        source.put({"beat": value, "skip": skip})
    return packet[skip:]


async def collect(dut, sink, want, limit=200000):
    total = sum(len(beat.beats(p)) for p in want)
    await wait_for(dut.clk_i, lambda: len(sink.items) >= total, limit)
    for _ in range(20):
        await RisingEdge(dut.clk_i)
    assert beat.packets(sink.items) == want


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def every_cut(dut, stall):
    """Every skip from 0 to 64, with every length left from 1 to 50."""
    source, sink = await set_up(dut, 0.0, stall)
    cuts = [(skip, keep) for skip in range(MAX_SKIP + 1) for keep in range(1, 51)]
    # One behind the other, and behind any other.
    for _ in range(2):
        want = [put(source, source.random.randbytes(skip + keep), skip) for skip, keep in cuts]
        await collect(dut, sink, want)
        sink.items.clear()
        source.random.shuffle(cuts)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9])
async def random_cuts(dut, idle, stall):
    """Random packets, also long ones, under idles and back-pressure."""
    source, sink = await set_up(dut, idle, stall)
    want = []
    for _ in range(150):
        rng = source.random
        packet = rng.randbytes(rng.choice([rng.randint(1, 100), rng.randint(100, 600)]))
        want.append(put(source, packet, rng.randint(0, min(MAX_SKIP, len(packet) - 1))))
    await collect(dut, sink, want)


@cocotb.test()
async def full_rate(dut):
    """1 beat a cycle without a gap where a whole beat goes, or none."""
    source, sink = await set_up(dut, 0.0, 0.0)
    want = []
    for skip in (0, 36, 28, 56, 16):  # outer headers, and nothing
        for _ in range(4):
            want.append(put(source, source.random.randbytes(160), skip))
    await collect(dut, sink, want)
    assert source.taken[-1] - source.taken[0] == len(source.taken) - 1 == 20 * 10 - 1
    assert sink.times[0] - source.taken[0] == 1


@cocotb.test()
async def spills_in_the_shadow(dut):
    """A skip inside the first beat that saves no beat costs nothing but after the last packet,
    because the next packet's first beat waits for its second one anyway."""
    source, sink = await set_up(dut, 0.0, 0.0)
    want = [put(source, source.random.randbytes(160), 8) for _ in range(10)]
    await collect(dut, sink, want)
    assert source.taken[-1] - source.taken[0] == 10 * 10 - 1


@cocotb.test()
async def one_cycle_more(dut):
    """A spilled end takes a cycle if the next packet's first beat leaves at once."""
    source, sink = await set_up(dut, 0.0, 0.0)
    want = [put(source, source.random.randbytes(160), 8 * (n % 2)) for n in range(11)]
    await collect(dut, sink, want)
    assert source.taken[-1] - source.taken[0] == 11 * 10 + 5 - 1
