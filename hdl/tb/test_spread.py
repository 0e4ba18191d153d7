"""Bench for cv_spread: packets go whole, once, to modules in turn; a blocked one is left out."""

import os

import beat
import cocotb
from cocotb.triggers import FallingEdge
from lanes import Lanes, watch
from stream import Sink, Source, start, wait_for

N = int(os.environ["CV_N"])
BEAT_BITS = 133


def ports(dut, idle, stalls):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o, {"beat": dut.in_beat_i}, idle)
    ready = Lanes(dut.out_ready_i, 1, N)
    sinks = [Sink(dut.clk_i, watch(dut.out_valid_o, 1, i), ready.lane(i),
                  {"beat": watch(dut.out_beat_o, BEAT_BITS, i)}, stalls[i], seed=10 + i)
             for i in range(N)]
    return source, sinks


async def run(dut, source, sinks, count):
    await start(dut)
    for runner in [source, *sinks]:
        cocotb.start_soon(runner.run())
    await wait_for(dut.clk_i, lambda: sum(len(s.items) for s in sinks) == count, 60000)
    for _ in range(10):
        await FallingEdge(dut.clk_i)
    assert sum(len(s.items) for s in sinks) == count


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4, 0.8])
async def delivers(dut, idle, stall):
    """Each packet leaves once, whole, and in order at its output."""
    source, sinks = ports(dut, idle, [stall] * N)
    packets = [number.to_bytes(2, "big") + source.random.randbytes(source.random.randint(1, 120))
               for number in range(200)]
    values = [value for packet in packets for value in beat.beats(packet)]
    for value in values:
        source.put(value)
    await run(dut, source, sinks, len(values))
    got = [beat.packets(s.items) for s in sinks]
    assert all(lane == sorted(lane) for lane in got)
    assert sorted(p for lane in got for p in lane) == packets


@cocotb.test()
async def shares_and_keeps_the_rate(dut):
    """Equal packets share the outputs equally, and go in at a beat a cycle, out one cycle later."""
    source, sinks = ports(dut, 0.0, [0.0] * N)
    for number in range(20 * N):
        for value in beat.beats(bytes([number + 1]) * 64):
            source.put(value)
    await run(dut, source, sinks, 80 * N)
    assert [len(s.items) for s in sinks] == [80] * N
    assert source.taken[-1] - source.taken[0] == 80 * N - 1
    assert min(s.times[0] for s in sinks) - source.taken[0] == 1


@cocotb.test(skip=N == 1)
async def leaves_out_the_blocked(dut):
    """An output that takes nothing gets its FIFO's worth of one-beat packets, the others the rest."""
    source, sinks = ports(dut, 0.0, [1.0] + [0.0] * (N - 1))
    for number in range(60):
        source.put(beat.pack(bytes([number]), True))
    await run(dut, source, sinks[1:], 60 - 2)
    assert not sinks[0].items
