"""Bench for cv_output: order, the header beside each beat, room for two, cycles."""

import beat
import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from stream import Sink, Source, start, wait_for


async def set_up(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "rest": dut.in_rest_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                {"beat": dut.out_beat_o, "rest": dut.out_rest_o}, stall)
    await start(dut)
    return source, sink


def put(source, packets):
    """Offers packets, each with a header of its own; returns the beats that are to come."""
    want = []
    for packet in packets:
        rest = source.random.randrange(256)
        want += [{"beat": value, "rest": rest} for value in beat.beats(packet)]
    for item in want:
        source.put(item)
    return want


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4, 0.8])
async def keeps_order(dut, idle, stall):
    """Every beat comes out once, in order, beside its packet's header."""
    source, sink = await set_up(dut, idle, stall)
    want = put(source, [source.random.randbytes(source.random.randint(1, 70)) for _ in range(100)])
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    await wait_for(dut.clk_i, lambda: len(sink.items) == len(want), 20000)
    assert sink.items == want


@cocotb.test()
async def holds_two(dut):
    """With a blocked output it takes two beats and then refuses."""
    source, _ = await set_up(dut, 0.0, 1.0)
    put(source, [source.random.randbytes(80)])
    cocotb.start_soon(source.run())
    for _ in range(10):
        await FallingEdge(dut.clk_i)
    await ReadOnly()
    assert len(source.taken) == 2
    assert int(dut.in_ready_o.value) == 0
    assert int(dut.out_valid_o.value) == 1


@cocotb.test()
async def full_rate(dut):
    """A beat in every cycle, 1 cycle after it came."""
    source, sink = await set_up(dut, 0.0, 0.0)
    want = put(source, [source.random.randbytes(160) for _ in range(10)])
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    await wait_for(dut.clk_i, lambda: len(sink.items) == len(want), 1000)
    assert sink.items == want
    assert sink.times[-1] - sink.times[0] == len(sink.times) - 1
    assert sink.times[0] == 2  # offered in cycle 1
