"""Bench for the filter that takes the ICV off: every length, against slices of Python."""

import os

import beat
import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from stream import Sink, Source, start, wait_for

ICV_BYTES = int(os.environ["CV_IcvBytes"])


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9])
async def every_length(dut, idle, stall):
    """Packets of 1 to 100 bytes in front of their ICV."""
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "bytes": dut.in_bytes_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i, {"beat": dut.out_beat_o}, stall)
    icvs = []

    async def watch():
        while True:
            await FallingEdge(dut.clk_i)
            await ReadOnly()
            # Sources and sinks drive at this edge as well: this is the settled cycle.
            if int(dut.icv_valid_o.value):
                icvs.append(int(dut.icv_o.value).to_bytes(ICV_BYTES, "big"))

    await start(dut)
    for runner in (source.run, sink.run, watch):
        cocotb.start_soon(runner())
    want, want_icvs = [], []
    for length in range(1, 101):
        body, icv = source.random.randbytes(length), source.random.randbytes(ICV_BYTES)
        # The length counts with the first beat only.
        for number, value in enumerate(beat.beats(body + icv)):
            source.put({"beat": value, "bytes": length + ICV_BYTES if number == 0 else 0x3FFF})
        want.append(body)
        want_icvs.append(icv)
    total = sum(len(beat.beats(p)) for p in want)
    await wait_for(dut.clk_i, lambda: len(sink.items) == total and len(icvs) == len(want))
    assert beat.packets(sink.items) == want
    assert icvs == want_icvs
