"""Bench for the inbound half: random packets of every kind, against the model in `inbound_model`.

Every packet comes out as the model opens it, or is dropped for the model's reason; with one module of
each kind those of an SA stay in order. SAs and policies are loaded while packets run.
"""

import os
import random

import cocotb
from direction import EVENTS_IN, REASONS_IN, Direction, wanted
from half import Half
from inbound_model import Inbound
from inbound_traffic import InboundTraffic
from site_plan import SPECS, add_inbound, policies

MODULES = int(os.environ["CV_NumAes"])


@cocotb.test()
async def random_packets(dut):
    """Packets of a site's flows, half of which come into being on the way."""
    count, seed = wanted(320)
    rng = random.Random(seed)
    half, model = Half(dut), Inbound(MODULES)
    traffic = InboundTraffic(rng, model)
    direction = Direction(dut.clk_i, model, traffic, half.source, half.sink)
    await half.start(rng)
    direction.start()
    await half.load(policies(model.spd, inbound=True))
    specs = list(enumerate(SPECS))
    for group in (specs[::2], specs[1::2]):
        writes = []
        for flow, spec in group:
            writes += add_inbound(model, flow, spec, rng)
        await half.load(writes)
        for flow, _ in group:
            traffic.add(flow)
        cocotb.start_soon(direction.send([traffic.next() for _ in range(count // 2)]))
    await direction.finish(half.dropped)
    await direction.send(traffic.extremes())
    await direction.finish(half.dropped)
    await half.check(model)
    direction.covered(REASONS_IN, EVENTS_IN)
