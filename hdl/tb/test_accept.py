"""Bench for the judge of inbound packets: judgements in order, the SAD asked exactly for those whose
ICV agreed, several ports in parallel.
"""

import os

import cocotb
from open_model import ACCEPT, DROP, SAD_REQ
from open_sad import OpenSad
from stream import Sink, Source, start, wait_for

CLIENTS = int(os.environ["CV_Clients"])


async def set_up(dut, idle, stall, delay):
    source = Source(dut.clk_i, dut.ask_valid_i, dut.ask_ready_o,
                    {"agrees": dut.ask_agrees_i, "req": dut.ask_req_i}, idle)
    sink = Sink(dut.clk_i, dut.done_valid_o, dut.done_ready_i, {"drop": dut.done_drop_o}, stall)
    sad = OpenSad(dut, clients=CLIENTS, delay=delay)
    await start(dut)
    for runner in (source, sink, sad):
        cocotb.start_soon(runner.run())
    return source, sink, sad


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9], delay=[(0, 0), (0, 20)])
async def judges_in_order(dut, idle, stall, delay):
    """Every packet gets its own judgement."""
    source, sink, sad = await set_up(dut, idle, stall, delay)
    sad.accept = lambda req: {"drop": req["bytes"]}
    want, asked = [], []
    for number in range(300):
        agrees, drop = source.random.random() < 0.6, source.random.choice([0, 0, 7, 9, 10])
        source.put({"agrees": int(agrees),
                    "req": SAD_REQ.pack(op=ACCEPT, sa=number, seq=number, bytes=drop)})
        want.append(drop if agrees else DROP["Integrity"])
        if agrees:
            asked.append(number)
    await wait_for(dut.clk_i, lambda: len(sink.items) == len(want))
    assert sink.items == want
    assert sorted(r["seq"] for r in sad.requests) == asked


@cocotb.test()
async def cycles(dut):
    """A SAD that answers 5 cycles after the request bears one packet in 7 cycles on each port; wrong
    ICVs go one a cycle."""
    source, sink, _ = await set_up(dut, 0.0, 0.0, (4, 4))
    for number in range(40):
        source.put({"agrees": 1, "req": SAD_REQ.pack(op=ACCEPT, seq=number)})
    await wait_for(dut.clk_i, lambda: len(sink.items) == 40)
    dut._log.info("%d ports: 40 judgements in %d cycles", CLIENTS, sink.times[-1] - sink.times[0])
    assert sink.times[-1] - sink.times[0] <= 7 * (39 // CLIENTS) + CLIENTS
    for _ in range(40):
        source.put({"agrees": 0, "req": SAD_REQ.pack(op=ACCEPT)})
    await wait_for(dut.clk_i, lambda: len(sink.items) == 80)
    assert sink.times[79] - sink.times[40] == 39
