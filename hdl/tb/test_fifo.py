"""Benches for the FIFOs: order, capacity, throughput."""

import os

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from stream import Sink, Source, start, wait_for

DEPTH = int(os.environ["CV_Depth"])


def ports(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o, {"d": dut.in_data_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i, {"d": dut.out_data_o}, stall)
    return source, sink


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.3, 0.8], stall=[0.0, 0.3, 0.8])
async def keeps_order(dut, idle, stall):
    """Every word comes out once, in order, under every mix of idles and back-pressure."""
    source, sink = ports(dut, idle, stall)
    words = [source.random.randrange(256) for _ in range(300)]
    for word in words:
        source.put(word)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    await wait_for(dut.clk_i, lambda: len(sink.items) == len(words))
    assert sink.items == words


@cocotb.test()
async def holds_depth(dut):
    """With a blocked output it takes exactly `Depth` words and then refuses.

    cv_fifo_ram has its output buffer of three words on top of that.
    """
    depth = DEPTH if hasattr(dut, "count_o") else DEPTH + 3
    source, _ = ports(dut, 0.0, 1.0)
    for word in range(depth + 5):
        source.put(word)
    await start(dut)
    cocotb.start_soon(source.run())
    for _ in range(depth + 10):
        await FallingEdge(dut.clk_i)
    await ReadOnly()
    assert len(source.taken) == depth
    assert int(dut.in_ready_o.value) == 0
    if hasattr(dut, "count_o"):
        assert int(dut.count_o.value) == DEPTH


@cocotb.test(skip=DEPTH < 2)
async def full_rate(dut):
    """From depth 2 on a word passes in every cycle, one cycle after it came."""
    source, sink = ports(dut, 0.0, 0.0)
    for word in range(64):
        source.put(word)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    await wait_for(dut.clk_i, lambda: len(sink.items) == 64)
    assert sink.times[-1] - sink.times[0] == 63
    assert sink.times[0] - source.taken[0] == 1
