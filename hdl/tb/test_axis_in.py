"""Bench for cv_axis_in: byte order, tkeep, empty last beats, and packets over the limit."""

import os

import beat
import cocotb
from cocotb.triggers import FallingEdge
from stream import Sink, Source, start, wait_for

MAX_BYTES = int(os.environ["CV_MaxBytes"])


def ports(dut, idle, stall):
    source = Source(dut.clk_i, dut.axis_tvalid_i, dut.axis_tready_o,
                    {"data": dut.axis_tdata_i, "keep": dut.axis_tkeep_i,
                     "last": dut.axis_tlast_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i, {"beat": dut.out_beat_o}, stall)
    return source, sink


def put(source, packet, empty_end=False):
    """Offers a packet; bytes that tkeep leaves out carry noise."""
    chunks = [packet[i:i + 16] for i in range(0, len(packet), 16)] + [b""] * empty_end
    for number, chunk in enumerate(chunks):
        noise = chunk + source.random.randbytes(16 - len(chunk))
        source.put({"data": int.from_bytes(noise, "little"), "keep": (1 << len(chunk)) - 1,
                    "last": int(number == len(chunks) - 1)})


async def run(dut, source, sink, count):
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    await wait_for(dut.clk_i, lambda: len(sink.items) == count and not source.queue)
    for _ in range(10):
        await FallingEdge(dut.clk_i)
    return beat.packets(sink.items)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4, 0.8])
async def takes_packets(dut, idle, stall):
    """Packets within the limit come through as they are; longer ones are cut one byte behind it."""
    source, sink = ports(dut, idle, stall)
    want = []
    for _ in range(150):
        packet = source.random.randbytes(source.random.randint(1, 2 * MAX_BYTES))
        put(source, packet)
        want.append(packet[:MAX_BYTES + 1])
    count = sum(len(beat.beats(p)) for p in want)
    assert await run(dut, source, sink, count) == want


@cocotb.test()
async def limits(dut):
    """The lengths around the limit, each followed by a short packet."""
    source, sink = ports(dut, 0.0, 0.0)
    want = []
    for length in [MAX_BYTES - 1, MAX_BYTES, MAX_BYTES + 1, MAX_BYTES + 16, MAX_BYTES + 17,
                   3 * MAX_BYTES]:
        for packet in (source.random.randbytes(length), b"short"):
            put(source, packet)
            want.append(packet[:MAX_BYTES + 1])
    count = sum(len(beat.beats(p)) for p in want)
    assert await run(dut, source, sink, count) == want


@cocotb.test()
async def empty_last_beat_counts(dut):
    """A last beat without a byte makes the packet one byte longer, so that it is seen to be wrong."""
    source, sink = ports(dut, 0.0, 0.0)
    put(source, bytes(range(32)), empty_end=True)
    (packet,) = await run(dut, source, sink, 3)
    assert len(packet) == 33 and packet[:32] == bytes(range(32))


@cocotb.test()
async def full_rate(dut):
    """A beat a cycle, one cycle later."""
    source, sink = ports(dut, 0.0, 0.0)
    for _ in range(10):
        put(source, bytes(64))
    await run(dut, source, sink, 40)
    assert sink.times[-1] - sink.times[0] == 39
    assert sink.times[0] - source.taken[0] == 1
