"""Bench for the inbound half: random packets of every kind, against the model in `inbound_model`.

Every packet comes out as the model opens it, or is dropped for the model's reason; with one module of
each kind those of an SA stay in order. SAs and policies are loaded while packets run.
"""

import os
import random

import cocotb
from direction import EVENTS_IN, REASONS_IN, wanted
from half import run_site
from inbound_model import Inbound
from inbound_traffic import InboundTraffic
from site_plan import SPECS

MODULES = int(os.environ["CV_NumAes"])


@cocotb.test()
async def random_packets(dut):
    """Packets of a site's flows, half of which come into being on the way."""
    count, seed = wanted(320)
    rng = random.Random(seed)
    model = Inbound(MODULES)
    seen = await run_site(dut, rng, model, InboundTraffic(rng, model), SPECS, True, count)
    seen.covered(REASONS_IN, EVENTS_IN)
