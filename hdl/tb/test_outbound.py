"""Bench for the outbound half: random packets of every kind, against the model in
`outbound_model`.

Every packet comes out as the model seals it, or is dropped for the model's reason; with one module of
each kind those of an SA stay in order. SAs and policies are loaded while packets run.
"""

import os
import random

import cocotb
from direction import EVENTS_OUT, REASONS_OUT, Direction, wanted
from half import Half
from outbound_model import Outbound
from outbound_traffic import OutboundTraffic
from site_plan import SPECS, SPECS_OUT, add_outbound, policies

MODULES = int(os.environ["CV_NumAes"])


@cocotb.test()
async def random_packets(dut):
    """Packets of a site's flows, half of which come into being on the way."""
    count, seed = wanted(260)
    rng = random.Random(seed)
    half, model = Half(dut), Outbound(MODULES)
    traffic = OutboundTraffic(rng)
    out = Direction(dut.clk_i, model, traffic, half.source, half.sink)
    await half.start(rng)
    out.start()
    await half.load(policies(model.spd, inbound=False))
    specs = list(enumerate(SPECS + SPECS_OUT))
    for group in (specs[::2], specs[1::2]):
        writes = []
        for flow, spec in group:
            writes += add_outbound(model, flow, spec, rng)
        await half.load(writes)
        traffic.flows += [flow for flow, _ in group]
        cocotb.start_soon(out.send([traffic.next() for _ in range(count // 2)]))
    await out.finish(half.dropped)
    await out.send(traffic.extremes())
    await out.finish(half.dropped)
    await half.check(model)
    out.covered(REASONS_OUT, EVENTS_OUT)
    assert out.opened
