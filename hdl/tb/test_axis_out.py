"""Bench for cv_axis_out: byte order and tkeep."""

import beat
import cocotb
from stream import Sink, Source, start, wait_for


def ports(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o, {"beat": dut.in_beat_i}, idle)
    sink = Sink(dut.clk_i, dut.axis_tvalid_o, dut.axis_tready_i,
                {"data": dut.axis_tdata_o, "keep": dut.axis_tkeep_o, "last": dut.axis_tlast_o},
                stall)
    return source, sink


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4, 0.8])
async def sends_packets(dut, idle, stall):
    """Packets of every length come out byte by byte as they went in."""
    source, sink = ports(dut, idle, stall)
    packets = [source.random.randbytes(1 + number % 70) for number in range(140)]
    for packet in packets:
        for value in beat.beats(packet):
            source.put(value)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    await wait_for(dut.clk_i, lambda: len(sink.items) == sum(len(beat.beats(p)) for p in packets))
    got, current = [], b""
    for item in sink.items:
        count = item["keep"].bit_count()
        assert item["keep"] == (1 << count) - 1 and (item["last"] or count == 16)
        current += item["data"].to_bytes(16, "little")[:count]
        if item["last"]:
            got.append(current)
            current = b""
    assert got == packets


@cocotb.test()
async def full_rate(dut):
    """A beat a cycle, one cycle later."""
    source, sink = ports(dut, 0.0, 0.0)
    for _ in range(10):
        for value in beat.beats(bytes(64)):
            source.put(value)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    await wait_for(dut.clk_i, lambda: len(sink.items) == 40)
    assert sink.times[-1] - sink.times[0] == 39
    assert sink.times[0] - source.taken[0] == 1
