"""Drivers and monitors for valid/ready streams, with random idles and back-pressure.

Everything is driven at the falling clock edge and sampled, settled, right after it: what is seen
there is what the next rising edge acts on, also over combinational paths.
"""

import random

from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

PERIOD_NS = 10


async def start(dut, clock="clk_i", reset="rst_ni", period=PERIOD_NS):
    """Starts the clock and applies reset; the inputs must have been given their idle values."""
    import cocotb

    clk, rst = getattr(dut, clock), getattr(dut, reset)
    rst.value = 0
    cocotb.start_soon(Clock(clk, period, unit="ns").start())
    for _ in range(3):
        await FallingEdge(clk)
    rst.value = 1
    await FallingEdge(clk)


class Source:
    """Offers the items of a queue on a valid/ready port, with idle cycles in between.

    `fields` maps the names of an item's entries to signals. An item is a dict, or a plain int
    where there is only one field.
    """

    def __init__(self, clk, valid, ready, fields, idle=0.3, seed=1):
        self.clk, self.valid, self.ready, self.fields = clk, valid, ready, fields
        self.idle = idle
        self.random = random.Random(seed)
        self.queue = []
        self.taken = []  # cycle numbers at which the items were taken
        self.cycle = 0
        valid.value = 0
        for signal in fields.values():
            signal.value = 0

    def put(self, item):
        self.queue.append(item)

    def _show(self, item):
        for name, signal in self.fields.items():
            signal.value = item[name] if isinstance(item, dict) else item

    async def run(self):
        pending = None
        while True:
            await FallingEdge(self.clk)
            self.cycle += 1
            if pending is None and self.queue and self.random.random() >= self.idle:
                pending = self.queue.pop(0)
                self._show(pending)
                self.valid.value = 1
            elif pending is None:
                self.valid.value = 0
            await ReadOnly()
            if pending is not None and int(self.ready.value):
                self.taken.append(self.cycle)
                pending = None


class Sink:
    """Takes items from a valid/ready port, with random back-pressure, and keeps them."""

    def __init__(self, clk, valid, ready, fields, stall=0.3, seed=2):
        self.clk, self.valid, self.ready, self.fields = clk, valid, ready, fields
        self.stall = stall
        self.random = random.Random(seed)
        self.items = []
        self.times = []  # cycle number of each item
        self.cycle = 0
        ready.value = 0

    async def run(self):
        while True:
            await FallingEdge(self.clk)
            self.cycle += 1
            take = self.random.random() >= self.stall
            self.ready.value = int(take)
            await ReadOnly()
            if take and int(self.valid.value):
                if len(self.fields) == 1:
                    (signal,) = self.fields.values()
                    self.items.append(int(signal.value))
                else:
                    self.items.append({n: int(s.value) for n, s in self.fields.items()})
                self.times.append(self.cycle)


async def wait_for(clk, condition, limit=20000):
    """Waits until `condition()` is true; fails the test after `limit` cycles."""
    for _ in range(limit):
        if condition():
            return
        await RisingEdge(clk)
    raise AssertionError(f"no result within {limit} cycles")
