"""Bench for the ESP trailer: every payload length and alignment, against RFC 4303's rule."""

import beat
import cocotb
from stream import Sink, Source, start, wait_for


async def set_up(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "align": dut.in_align_i,
                     "next": dut.in_next_header_i, "rest": dut.in_rest_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                {"beat": dut.out_beat_o, "rest": dut.out_rest_o}, stall)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    return source, sink


def put(source, payload, align, next_header, rest=0):
    """Offers a payload; returns it with padding and trailer."""
    for value in beat.beats(payload):
        source.put({"beat": value, "align": {4: 0, 8: 1, 16: 2}[align], "next": next_header,
                    "rest": rest})
    pad = -(len(payload) + 2) % align
    return payload + bytes(range(1, pad + 1)) + bytes([pad, next_header])


@cocotb.test()
@cocotb.parametrize(align=[4, 8, 16], idle=[0.0, 0.5], stall=[0.0, 0.5])
async def every_length(dut, align, idle, stall):
    """Payloads of 1 to 50 bytes."""
    source, sink = await set_up(dut, idle, stall)
    want, rests = [], []
    for length in range(1, 51):
        payload = source.random.randbytes(length)
        want.append(put(source, payload, align, source.random.randrange(256), length))
        rests += [length] * len(beat.beats(want[-1]))
    await wait_for(dut.clk_i, lambda: len(sink.items) == len(rests))
    assert beat.packets([i["beat"] for i in sink.items]) == want
    assert [i["rest"] for i in sink.items] == rests


@cocotb.test()
async def full_rate(dut):
    """1 beat a cycle; a trailer that spills costs one cycle more."""
    source, sink = await set_up(dut, 0.0, 0.0)
    put(source, bytes(14 + 160), 16, 4)  # the trailer just fits
    put(source, bytes(16 + 160), 16, 4)  # it needs a beat of its own
    put(source, bytes(16), 16, 4)
    await wait_for(dut.clk_i, lambda: len(sink.items) == 11 + 12 + 2)
    assert sink.times[-1] - sink.times[0] == 24
    assert sink.times[0] - source.taken[0] == 1
