"""One half of a gateway (cv_outbound, cv_inbound): tables, drops, events, clocks, and a run."""

import random
from collections import Counter

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, Timer
from direction import Direction
from packet_ports import BeatSink, BeatSource, weather
from records import EVENT, STATE, Drop, unpack
from sad_model import STATES
from site_plan import SAD_TABLES, add_inbound, add_outbound, policies
from stream import Sink

REASON_BITS = 5
SAD_PERIODS = (10, 7, 14, 26)  # of sad_clk_i; clk_i has 10


async def start_clocks(dut, sad_period):
    """Both clocks and both resets; the inputs must have been given their idle values."""
    dut.rst_ni.value = dut.sad_rst_ni.value = 0
    cocotb.start_soon(Clock(dut.clk_i, 10, unit="ns").start())
    cocotb.start_soon(Clock(dut.sad_clk_i, sad_period, unit="ns").start())
    await Timer(100, unit="ns")
    await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    await FallingEdge(dut.sad_clk_i)
    dut.sad_rst_ni.value = 1
    await FallingEdge(dut.clk_i)


class Half:
    """Everything around one direction but its packets' meaning."""

    def __init__(self, dut):
        self.dut, self.drops = dut, Counter()
        self.source, self.sink = BeatSource(dut), BeatSink(dut)
        self.events = Sink(dut.clk_i, dut.event_valid_o, dut.event_ready_i, {"event": dut.event_o})
        dut.event_clear_i.value = 0
        for name in ("spd_valid_i", "sad_valid_i", "tbl_write_i", "tbl_table_i", "tbl_index_i",
                     "tbl_data_i"):
            getattr(dut, name).value = 0

    async def start(self, rng):
        await start_clocks(self.dut, rng.choice(SAD_PERIODS))
        cocotb.start_soon(self.events.run())
        cocotb.start_soon(self._watch_drops())
        cocotb.start_soon(weather(self.dut.clk_i, random.Random(rng.random()), [self.source],
                                  [self.sink, self.events]))

    async def _watch_drops(self):
        dut = self.dut
        while True:
            await FallingEdge(dut.clk_i)
            await ReadOnly()
            valid = int(dut.drop_valid_o.value)
            if valid:
                reasons = int(dut.drop_reason_o.value)
                for line in range(valid.bit_length()):
                    if valid >> line & 1:
                        self.drops[Drop(reasons >> REASON_BITS * line & 31)] += 1

    async def dropped(self):
        return self.drops.total()

    async def access(self, table, index, data=None):
        """Writes a record, or reads one; tables are numbered as in the registers."""
        dut = self.dut
        unit = "spd" if table < SAD_TABLES else "sad"
        valid, ready = getattr(dut, f"{unit}_valid_i"), getattr(dut, f"{unit}_ready_o")
        await FallingEdge(dut.clk_i)
        dut.tbl_write_i.value = int(data is not None)
        dut.tbl_table_i.value, dut.tbl_index_i.value = table % SAD_TABLES, index
        dut.tbl_data_i.value = data or 0
        valid.value = 1
        for _ in range(20000):
            await ReadOnly()
            done, got = int(ready.value), getattr(dut, f"{unit}_data_o").value
            await FallingEdge(dut.clk_i)
            if done:
                valid.value = 0
                return int(got) if data is None else None
        raise AssertionError("a table access does not end")

    async def load(self, writes):
        for table, index, data in writes:
            await self.access(table, index, data)

    async def state(self, index):
        return unpack(STATE, await self.access(SAD_TABLES + STATES, index))

    async def check(self, model):
        """Drops, events and the SAs' states are the model's."""
        await ClockCycles(self.dut.clk_i, 1500)
        assert self.drops == model.drops, f"drops: {self.drops}, not {model.drops}"
        events = Counter(tuple(unpack(EVENT, e).values()) for e in self.events.items)
        assert events == Counter(model.events)
        assert not int(self.dut.event_missed_o.value)
        for index in model.flows:
            model.check_state(index, await self.state(index))


async def run_site(dut, rng, model, traffic, specs, inbound, count):
    """Sends packets of a site's flows, half of which come into being on the way, and checks what
    becomes of them; returns what was seen."""
    half = Half(dut)
    direction = Direction(dut.clk_i, model, traffic, half.source, half.sink)
    await half.start(rng)
    direction.start()
    await half.load(policies(model.spd, inbound))
    add = add_inbound if inbound else add_outbound
    flows = list(enumerate(specs))
    for group in (flows[::2], flows[1::2]):
        writes = []
        for flow, spec in group:
            writes += add(model, flow, spec, rng)
        await half.load(writes)
        for flow, _ in group:
            traffic.add(flow)
        cocotb.start_soon(direction.send([traffic.next() for _ in range(count // 2)]))
    await direction.finish(half.dropped)
    await direction.send(traffic.extremes())
    await direction.finish(half.dropped)
    await half.check(model)
    return direction
