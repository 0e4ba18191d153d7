"""Bench for the whole gateway through its ports: random packets in both directions at once, against
`outbound_model` and `inbound_model`; tables, counters, events and states over AXI4-Lite.

Every packet comes out as a model says or is counted under the model's reason, nothing comes out in
clear that policy protects, and with one module of each kind the packets of an SA stay in order.
"""

import os
import random

import cocotb
from clear_traffic import EXPERIMENT
from cocotb.triggers import ClockCycles
from direction import EVENTS_IN, EVENTS_OUT, REASONS_IN, REASONS_OUT, Direction, wanted
from half import SAD_PERIODS, start_clocks
from inbound_model import Inbound
from inbound_traffic import InboundTraffic
from outbound_model import Outbound
from outbound_traffic import OutboundTraffic
from packet_ports import AxisSink, AxisSource, weather
from records import Drop
from registers import Registers
from site_plan import SPECS, SPECS_OUT, add_inbound, add_outbound, policies

MODULES = int(os.environ["CV_NumAes"])


class Bench:
    """The gateway between two directions' traffic."""

    def __init__(self, dut, rng):
        self.dut, self.rng = dut, rng
        self.registers = Registers(dut)
        self.models = Outbound(MODULES), Inbound(MODULES)
        self.traffic = (OutboundTraffic(random.Random(rng.random())),
                        InboundTraffic(random.Random(rng.random()), self.models[1]))
        self.directions = [
            Direction(dut.clk_i, model, traffic, AxisSource(dut, f"{rx}_rx"), AxisSink(dut, f"{tx}_tx"))
            for model, traffic, rx, tx in zip(self.models, self.traffic, ("prot", "unprot"),
                                              ("unprot", "prot"))]

    async def start(self):
        await start_clocks(self.dut, self.rng.choice(SAD_PERIODS))
        for direction in self.directions:
            direction.start()
        cocotb.start_soon(weather(
            self.dut.clk_i, random.Random(self.rng.random()), [d.source for d in self.directions],
            [d.sink for d in self.directions]))
        await self.registers.identify(MODULES)

    async def load_flows(self, flows):
        """Loads these flows' SAs and policies; traffic may use them from then on."""
        for flow in flows:
            if flow < len(SPECS):
                await self.registers.load(1, add_inbound(self.models[1], flow, SPECS[flow], self.rng))
                self.traffic[1].add(flow)
            spec = (SPECS + SPECS_OUT)[flow]
            await self.registers.load(0, add_outbound(self.models[0], flow, spec, self.rng))
            self.traffic[0].add(flow)

    def send(self, count):
        for direction, traffic in zip(self.directions, self.traffic):
            cocotb.start_soon(direction.send([traffic.next() for _ in range(count)]))

    async def finish(self):
        for inbound, direction in enumerate(self.directions):
            await direction.finish(lambda i=inbound: self.registers.dropped(i))


@cocotb.test()
async def closed_after_reset(dut):
    """Nothing passes before policies are loaded, and everything is counted."""
    bench = Bench(dut, random.Random(2))
    await bench.start()
    for direction, traffic in zip(bench.directions, bench.traffic):
        for v6 in (False, True, False, True):
            direction.put(traffic.clear.packet(v6, 0))
        assert direction.model.drops == {Drop.NO_POLICY: 4}
    await bench.finish()
    for inbound, model in enumerate(bench.models):
        await bench.registers.check(inbound, model)


@cocotb.test()
async def random_packets(dut):
    """Packets of a site's flows both ways; half of the flows come into being on the way."""
    count, seed = wanted(320)
    bench = Bench(dut, random.Random(seed))
    await bench.start()
    registers = bench.registers
    for inbound, model in enumerate(bench.models):
        await registers.load(inbound, policies(model.spd, inbound))
    everyone = range(len(SPECS + SPECS_OUT))
    for flows in (everyone[::2], everyone[1::2]):
        await bench.load_flows(flows)
        bench.send(count // 2)
        await registers.take_events()
        await ClockCycles(dut.clk_i, 200)
    # A last beat without a byte makes a packet one byte longer.
    for direction, traffic in zip(bench.directions, bench.traffic):
        direction.put(traffic.clear.packet(False, 0, bytes(44), proto=EXPERIMENT), empty_end=True)
    await bench.finish()
    for direction, traffic in zip(bench.directions, bench.traffic):
        await direction.send(traffic.extremes())
    await bench.finish()
    for inbound, model in enumerate(bench.models):
        await registers.check(inbound, model)
    bench.directions[0].covered(REASONS_OUT, EVENTS_OUT)
    bench.directions[1].covered(REASONS_IN, EVENTS_IN)
    assert not int(dut.irq_o.value) and bench.directions[0].opened
