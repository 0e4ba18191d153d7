"""Bench for cv_auth_in without an HMAC: a wire, which asks the SAD for nothing."""

import beat
import cocotb
from open_model import OPEN
from open_sad import Drops, OpenSad
from stream import Sink, Source, start, wait_for


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def passes(dut, idle, stall):
    """Beats and headers come out as they went in, in the same cycle."""
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "hdr": dut.in_hdr_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                {"beat": dut.out_beat_o, "hdr": dut.out_hdr_o}, stall)
    sad, drops = OpenSad(dut), Drops(dut)
    await start(dut)
    for runner in (source, sink, sad, drops):
        cocotb.start_soon(runner.run())
    want = []
    for length in range(1, 60):
        hdr = source.random.getrandbits(OPEN.bits)
        for value in beat.beats(source.random.randbytes(length)):
            want.append({"beat": value, "hdr": hdr})
            source.put(want[-1])
    await wait_for(dut.clk_i, lambda: len(sink.items) == len(want))
    assert sink.items == want
    assert sink.times == source.taken
    assert not sad.requests and not drops.reasons
