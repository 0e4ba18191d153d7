"""Bench for cv_append: every length of packet and suffix, cycles."""

import beat
import cocotb
from stream import Sink, Source, start, wait_for


async def set_up(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "suffix": dut.in_suffix_i, "bytes": dut.in_bytes_i,
                     "rest": dut.in_rest_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                {"beat": dut.out_beat_o, "rest": dut.out_rest_o}, stall)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    return source, sink


def put(source, packet, suffix, rest=0):
    """Offers a packet; the suffix is right with the last beat only, and noise lies behind it."""
    values = beat.beats(packet)
    for number, value in enumerate(values):
        here = suffix + source.random.randbytes(16 - len(suffix))
        count = len(suffix)
        if number != len(values) - 1:
            here, count = source.random.randbytes(16), source.random.randint(0, 16)
        source.put({"beat": value, "suffix": int.from_bytes(here, "big"), "bytes": count,
                    "rest": rest})
    return packet + suffix


async def compare(dut, sink, want, rests):
    """Whole packets, each beat with its packet's header."""
    counts = [len(beat.beats(p)) for p in want]
    await wait_for(dut.clk_i, lambda: len(sink.items) == sum(counts), 60000)
    assert beat.packets([i["beat"] for i in sink.items]) == want
    assert [i["rest"] for i in sink.items] == [r for r, n in zip(rests, counts) for _ in range(n)]


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4])
async def every_length(dut, idle, stall):
    """Suffixes of 0 to 16 bytes behind packets of 1 to 34, in random order."""
    source, sink = await set_up(dut, idle, stall)
    cases = [(n, s) for n in range(1, 35) for s in range(17)]
    source.random.shuffle(cases)
    want, rests = [], []
    for length, suffix in cases:
        rests.append(source.random.randrange(256))
        want.append(put(source, source.random.randbytes(length), source.random.randbytes(suffix),
                        rests[-1]))
    await compare(dut, sink, want, rests)


@cocotb.test()
async def full_rate(dut):
    """An output beat in every cycle, also from packet to packet; 1 cycle to the first."""
    source, sink = await set_up(dut, 0.0, 0.0)
    want = []
    for _ in range(100):
        suffix = source.random.randbytes(source.random.randint(0, 16))
        want.append(put(source, source.random.randbytes(source.random.randint(1, 80)), suffix))
    await compare(dut, sink, want, [0] * len(want))
    assert sink.times[-1] - sink.times[0] == len(sink.times) - 1
    assert sink.times[0] == 2  # offered in cycle 1
