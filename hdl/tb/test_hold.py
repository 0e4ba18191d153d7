"""Bench for cv_hold: kept packets leave whole with their verdict's header, dropped ones vanish."""

import os

import beat
import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from stream import Sink, Source, start, wait_for

DEPTH = int(os.environ["CV_Depth"])


def ports(dut, idle, stall, verdict_idle):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o, {"beat": dut.in_beat_i}, idle)
    verdicts = Source(dut.clk_i, dut.verdict_valid_i, dut.verdict_ready_o,
                      {"keep": dut.verdict_keep_i, "hdr": dut.verdict_hdr_i}, verdict_idle, seed=3)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                {"beat": dut.out_beat_o, "hdr": dut.out_hdr_o}, stall)
    return source, verdicts, sink


async def run(dut, *runners):
    await start(dut)
    for runner in runners:
        cocotb.start_soon(runner.run())


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.3, 0.8], verdict_idle=[0.0, 0.5, 0.9])
async def keeps_and_drops(dut, idle, stall, verdict_idle):
    """Verdicts run ahead of the packets, or far behind them; only kept packets come out."""
    source, verdicts, sink = ports(dut, idle, stall, verdict_idle)
    want = []
    for number in range(150):
        packet = source.random.randbytes(source.random.randint(1, 16 * DEPTH))
        keep = source.random.random() < 0.6
        for value in beat.beats(packet):
            source.put(value)
            if keep:
                want.append({"beat": value, "hdr": number})
        verdicts.put({"keep": int(keep), "hdr": number})
    await run(dut, source, verdicts, sink)
    await wait_for(dut.clk_i, lambda: not source.queue and not verdicts.queue
                   and len(sink.items) >= len(want), 100000)
    for _ in range(4 * DEPTH):
        await FallingEdge(dut.clk_i)
    assert sink.items == want


@cocotb.test()
async def waits_for_the_verdict(dut):
    """A packet of Depth beats is taken in whole and shows nothing, then leaves at a beat a cycle."""
    source, verdicts, sink = ports(dut, 0.0, 0.0, 0.0)
    for value in beat.beats(bytes(range(256)) * 64)[: DEPTH - 1] + [beat.pack(b"end", True)]:
        source.put(value)
    await run(dut, source, verdicts, sink)
    for _ in range(DEPTH + 10):
        await FallingEdge(dut.clk_i)
    assert len(source.taken) == DEPTH and not sink.items
    verdicts.put({"keep": 1, "hdr": 7})
    await wait_for(dut.clk_i, lambda: len(sink.items) == DEPTH)
    assert sink.times[0] - verdicts.taken[0] == 1
    assert sink.times[-1] - sink.times[0] == DEPTH - 1


@cocotb.test()
async def holds_back_verdicts(dut):
    """Without packets it takes `Packets` verdicts and no more, and a first beat passes in 1 cycle."""
    source, verdicts, sink = ports(dut, 0.0, 0.0, 0.0)
    packets = int(os.environ["CV_Packets"])
    for number in range(packets + 2):
        verdicts.put({"keep": 1, "hdr": number})
    await run(dut, source, verdicts, sink)
    for _ in range(20):
        await FallingEdge(dut.clk_i)
    await ReadOnly()
    assert len(verdicts.taken) == packets and not int(dut.verdict_ready_o.value)
    await FallingEdge(dut.clk_i)
    source.put(beat.pack(b"x", True))
    await wait_for(dut.clk_i, lambda: sink.items)
    assert sink.times[0] - source.taken[0] == 1
