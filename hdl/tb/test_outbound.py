"""Bench for the outbound half: random packets of every kind, against the model in
`outbound_model`.

Every packet comes out as the model seals it, or is dropped for the model's reason; with one module of
each kind those of an SA stay in order. SAs and policies are loaded while packets run.
"""

import os
import random

import cocotb
from direction import EVENTS_OUT, REASONS_OUT, wanted
from half import run_site
from outbound_model import Outbound
from outbound_traffic import OutboundTraffic
from site_plan import SPECS, SPECS_OUT

MODULES = int(os.environ["CV_NumAes"])


@cocotb.test()
async def random_packets(dut):
    """Packets of a site's flows, half of which come into being on the way."""
    count, seed = wanted(260)
    rng = random.Random(seed)
    model = Outbound(MODULES)
    seen = await run_site(dut, rng, model, OutboundTraffic(rng), SPECS + SPECS_OUT, False, count)
    seen.covered(REASONS_OUT, EVENTS_OUT)
    assert seen.opened
