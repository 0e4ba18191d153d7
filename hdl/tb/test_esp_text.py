"""Bench for cv_esp_text: every length of data, with and without extended numbers, cycles."""

import beat
import cocotb
from stream import Sink, Source, start, wait_for


async def set_up(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "esp": dut.in_esp_i, "esn": dut.in_esn_i,
                     "high": dut.in_high_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i, {"beat": dut.out_beat_o}, stall)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    return source, sink


def put(source, length, esn):
    """Offers a packet; what stands around it is right with the first beat, and noise behind that."""
    random = source.random
    data, esp, high = random.randbytes(length), random.randbytes(8), random.randbytes(4)
    for number, value in enumerate(beat.beats(data)):
        first = number == 0
        source.put({"beat": value, "esn": esn if first else random.getrandbits(1),
                    "esp": int.from_bytes(esp, "big") if first else random.getrandbits(64),
                    "high": int.from_bytes(high, "big") if first else random.getrandbits(32)})
    return esp + data + (high if esn else b"")


async def compare(dut, sink, want):
    count = sum(len(beat.beats(text)) for text in want)
    await wait_for(dut.clk_i, lambda: len(sink.items) == count, 60000)
    assert beat.packets(sink.items) == want


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4])
async def every_length(dut, idle, stall):
    """Data of 1 to 40 words, with and without the upper half, in random order."""
    source, sink = await set_up(dut, idle, stall)
    cases = [(4 * n, esn) for n in range(1, 41) for esn in (0, 1)] * 3
    source.random.shuffle(cases)
    await compare(dut, sink, [put(source, length, esn) for length, esn in cases])


@cocotb.test()
async def full_rate(dut):
    """An output beat in every cycle, also from packet to packet; the first one at once."""
    source, sink = await set_up(dut, 0.0, 0.0)
    want = [put(source, 4 * source.random.randint(1, 40), source.random.getrandbits(1))
            for _ in range(100)]
    await compare(dut, sink, want)
    assert sink.times[-1] - sink.times[0] == len(sink.times) - 1
    assert sink.times[0] == source.taken[0]
