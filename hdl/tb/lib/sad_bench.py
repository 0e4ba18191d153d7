"""What the benches of the SAD share: two clocks, clients, table port, events."""

import os

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, Timer
from lanes import Lanes, watch
from records import EVENT, REQUEST, RESPONSE, STATE, pack, unpack, width
from sad_model import STATES
from stream import Sink, Source, wait_for
from tables import TablePort

N = int(os.environ["CV_N"])
# Periods of clk_i and sad_clk_i: the same, SAD faster, SAD slower, drifting phases.
RATIOS = [(10, 10), (10, 4), (10, 26), (10, 12)]


class Bench:
    """One SAD under test. `requests` and `responses` are per client."""

    def __init__(self, dut, ratio=(10, 10), idle=0.3, stall=0.3, event_stall=0.3):
        self.dut, self.ratio = dut, ratio
        self.asked = [0] * N  # requests without a response yet
        dut.event_clear_i.value = 0
        self.table = TablePort(dut, 60000)
        valid = Lanes(dut.req_valid_i, 1, N)
        req = Lanes(dut.req_i, width(REQUEST), N)
        ready = Lanes(dut.rsp_ready_i, 1, N)
        self.sources = [
            Source(dut.clk_i, valid.lane(i), watch(dut.req_ready_o, 1, i), {"req": req.lane(i)},
                   idle, seed=i) for i in range(N)]
        self.sinks = [
            Sink(dut.clk_i, watch(dut.rsp_valid_o, 1, i), ready.lane(i),
                 {"rsp": watch(dut.rsp_o, width(RESPONSE), i)}, stall, seed=50 + i)
            for i in range(N)]
        self.event_sink = Sink(dut.clk_i, dut.event_valid_o, dut.event_ready_i,
                               {"event": dut.event_o}, event_stall)

    async def start(self):
        dut = self.dut
        dut.rst_ni.value = dut.sad_rst_ni.value = 0
        cocotb.start_soon(Clock(dut.clk_i, self.ratio[0], unit="ns").start())
        if self.ratio[0] != self.ratio[1]:
            await Timer(3, unit="ns")
        cocotb.start_soon(Clock(dut.sad_clk_i, self.ratio[1], unit="ns").start())
        await self._reset()
        for port in [*self.sources, *self.sinks, self.event_sink]:
            cocotb.start_soon(port.run())
        # The first access waits until the tables are empty.
        await self.table.read(STATES, 0)
        return self

    async def _reset(self):
        dut = self.dut
        dut.rst_ni.value = dut.sad_rst_ni.value = 0
        for _ in range(4):
            await FallingEdge(dut.clk_i)
            await FallingEdge(dut.sad_clk_i)
        dut.sad_rst_ni.value = 1
        await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1

    async def reset(self):
        """Resets the SAD while nothing is asked, and waits until its tables are empty."""
        await self._reset()
        await self.table.read(STATES, 0)

    def put(self, client, **request):
        """A request; both modes count the same where it does not say otherwise."""
        self.asked[client] += 1
        request.setdefault("payload", request.get("bytes", 0))
        self.sources[client].put(pack(REQUEST, request))

    async def finish(self, limit=200000):
        """Waits for all responses; returns them, client by client, and forgets them."""
        await wait_for(self.dut.clk_i, lambda: all(
            len(k.items) == n for k, n in zip(self.sinks, self.asked)), limit)
        answers = [[unpack(RESPONSE, item) for item in sink.items] for sink in self.sinks]
        for source, sink in zip(self.sources, self.sinks):
            source.taken.clear(), sink.items.clear(), sink.times.clear()
        self.asked = [0] * N
        return answers

    async def ask(self, client=0, **request):
        """One request and its response."""
        self.put(client, **request)
        return (await self.finish())[client][0]

    async def state(self, index):
        return unpack(STATE, await self.table.read(STATES, index))

    async def events(self):
        """The events so far, as (kind, sa)."""
        for _ in range(40):
            await FallingEdge(self.dut.clk_i)
        return [tuple(unpack(EVENT, e).values()) for e in self.event_sink.items]
