"""Bench for the FIFO between clock domains, at several clock ratios and phases."""

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, Timer
from stream import Sink, Source, wait_for

# Periods of the two clocks in ns: equal, slow to fast, fast to slow, nearly equal (phases drift).
RATIOS = [(10, 10), (10, 4), (4, 14), (10, 12)]


async def set_up(dut, ratio, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o, {"d": dut.in_data_i}, idle)
    sink = Sink(dut.out_clk_i, dut.out_valid_o, dut.out_ready_i, {"d": dut.out_data_o}, stall)
    dut.rst_ni.value = 0
    dut.out_rst_ni.value = 0
    cocotb.start_soon(Clock(dut.clk_i, ratio[0], unit="ns").start())
    await Timer(3, unit="ns")
    cocotb.start_soon(Clock(dut.out_clk_i, ratio[1], unit="ns").start())
    for _ in range(4):
        await FallingEdge(dut.clk_i)
        await FallingEdge(dut.out_clk_i)
    dut.out_rst_ni.value = 1
    await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    return source, sink


@cocotb.test()
@cocotb.parametrize(ratio=RATIOS, idle=[0.0, 0.5], stall=[0.0, 0.5])
async def keeps_order(dut, ratio, idle, stall):
    """Every word crosses once and in order."""
    source, sink = await set_up(dut, ratio, idle, stall)
    words = [source.random.randrange(256) for _ in range(300)]
    for word in words:
        source.put(word)
    await wait_for(dut.clk_i, lambda: len(sink.items) == len(words))
    assert sink.items == words


@cocotb.test()
async def full_rate(dut):
    """With equal clocks a word crosses in every cycle, within 4 cycles of having come."""
    source, sink = await set_up(dut, (10, 10), 0.0, 0.0)
    for word in range(100):
        source.put(word)
    await wait_for(dut.clk_i, lambda: len(sink.items) == 100)
    assert sink.times[-1] - sink.times[10] == 89


@cocotb.test()
async def holds_depth(dut):
    """With a blocked output it takes exactly `Depth` words."""
    source, _ = await set_up(dut, (10, 10), 0.0, 1.0)
    for word in range(20):
        source.put(word)
    for _ in range(40):
        await FallingEdge(dut.clk_i)
    assert len(source.taken) == 8
