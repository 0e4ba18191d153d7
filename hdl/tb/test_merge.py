"""Bench for cv_merge: every packet leaves whole and once; inputs are served in turn."""

import os

import beat
import cocotb
from cocotb.triggers import FallingEdge
from lanes import Lanes, watch
from stream import Sink, Source, start, wait_for

N = int(os.environ["CV_N"])
BEAT_BITS = 133


def ports(dut, idle, stall):
    valid, data = Lanes(dut.in_valid_i, 1, N), Lanes(dut.in_beat_i, BEAT_BITS, N)
    sources = [Source(dut.clk_i, valid.lane(i), watch(dut.in_ready_o, 1, i),
                      {"beat": data.lane(i)}, idle, seed=20 + i) for i in range(N)]
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i, {"beat": dut.out_beat_o}, stall)
    return sources, sink


async def run(dut, sources, sink, count):
    await start(dut)
    for runner in [*sources, sink]:
        cocotb.start_soon(runner.run())
    await wait_for(dut.clk_i, lambda: len(sink.items) == count, 60000)
    for _ in range(10):
        await FallingEdge(dut.clk_i)
    assert len(sink.items) == count


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4, 0.8], stall=[0.0, 0.4, 0.8])
async def delivers(dut, idle, stall):
    """Each packet leaves once, whole, and in the order of its input."""
    sources, sink = ports(dut, idle, stall)
    sent, count = [], 0
    for index, source in enumerate(sources):
        sent.append([])
        for number in range(80):
            packet = bytes([index, number]) + source.random.randbytes(source.random.randint(1, 100))
            sent[index].append(packet)
            for value in beat.beats(packet):
                source.put(value)
                count += 1
    await run(dut, sources, sink, count)
    got = beat.packets(sink.items)
    assert [[p for p in got if p[0] == index] for index in range(N)] == sent


@cocotb.test()
async def full_rate_in_turn(dut):
    """Inputs that always have a packet are served in turn, at a beat a cycle without gaps."""
    sources, sink = ports(dut, 0.0, 0.0)
    for index, source in enumerate(sources):
        for _ in range(10):
            for value in beat.beats(bytes([index]) * 40):
                source.put(value)
    await run(dut, sources, sink, 30 * N)
    assert sink.times[-1] - sink.times[0] == 30 * N - 1
    order = [p[0] for p in beat.packets(sink.items)]
    assert all(order[i] == order[i + N] for i in range(9 * N)) and len(set(order[:N])) == N
    assert sink.times[0] - min(s.taken[0] for s in sources) == 1
