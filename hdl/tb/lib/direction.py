"""One direction of a gateway under test: traffic in, packets out, both held against the model."""

import os
from collections import Counter

import cocotb
from cocotb.triggers import ClockCycles
from model import CLEAR
from outbound_traffic import opened_by_scapy
from records import EVENT_HARD, EVENT_NUMBERS, EVENT_SOFT, Drop
from scapy_esp import open_packet

QUEUE = 80        # beats that wait at an input
PATIENCE = 60000  # cycles without any packet leaving
SIZES = (64, 128, 600, 1500, 9216)


def wanted(packets):
    """(packets, seed): what a longer run asks for, or this many."""
    return int(os.environ.get("PACKETS") or packets), int(os.environ.get("SEED") or 1)


class Direction:
    """A model, its traffic, and the ports."""

    def __init__(self, clk, model, traffic, source, sink):
        self.clk, self.model, self.traffic = clk, model, traffic
        self.source, self.sink = source, sink
        self.outcomes, self.sizes, self.opened = Counter(), Counter(), 0

    def start(self):
        for runner in (self.source.run, self.sink.run, self._watch):
            cocotb.start_soon(runner())

    def put(self, packet, empty_end=False):
        more = {"empty_end": True} if empty_end else {}
        self.source.put_packet(packet, **more)
        outcome = self.model.send(packet + b"\0" * empty_end)
        self.outcomes[outcome] += 1
        if outcome == Drop.NONE:
            self.sizes[next(size for size in SIZES if len(packet) <= size)] += 1

    async def send(self, packets):
        """Puts packets, never many before the port takes them."""
        for packet in packets:
            while len(self.source.queue) > QUEUE:
                await ClockCycles(self.clk, 10)
            self.put(packet)

    async def _watch(self):
        while True:
            await ClockCycles(self.clk, 20)
            for packet in self.sink.packets():
                self._took(packet)

    def _took(self, packet):
        told = self.model.take(packet)
        if not isinstance(told, tuple) or told[0] == CLEAR:
            return
        # Outbound: another opener than the model finds the packet too.
        flow, inner, number = told
        if opened_by_scapy(inner) and len(inner) < 300:
            assert open_packet(self.model.flows[flow].sa, packet, number) == inner
            self.opened += 1

    async def finish(self, dropped):
        """Waits until all that went in came out or was dropped; `dropped()` says how many were."""
        model = self.model
        while True:
            before = model.packets_out, await dropped(), len(self.source.queue)
            if not self.source.queue and not model.expected.missing() and \
                    before[1] >= model.drops.total():
                break
            await ClockCycles(self.clk, 500)
            quiet = 0
            while (model.packets_out, await dropped(), len(self.source.queue)) == before:
                quiet += 1
                assert quiet < PATIENCE // 500, \
                    f"missing {dict(model.expected.missing())}, {before[1]} of {model.drops} dropped"
                await ClockCycles(self.clk, 500)
        # For what should not come.
        await ClockCycles(self.clk, 1500)
        assert not model.expected.missing() and not self.sink.part

    def covered(self, reasons, events):
        """Every flow, reason, size and kind of event occurred."""
        model = self.model
        for flow in model.expected.must:
            assert model.expected.came[flow], f"nothing of flow {flow}"
        absent = [reason.name for reason in (Drop.NONE, *reasons) if not self.outcomes[reason]]
        assert not absent, f"never happened: {absent}"
        strange = [reason.name for reason in self.outcomes if reason not in (Drop.NONE, *reasons)]
        assert not strange, f"not looked for: {strange}"
        assert all(self.sizes[size] for size in SIZES), f"sizes: {self.sizes}"
        assert {kind for kind, _ in model.events} == set(events), f"events: {model.events}"


# What must have occurred in either direction.
EVENTS_OUT = EVENT_SOFT, EVENT_HARD, EVENT_NUMBERS
EVENTS_IN = EVENT_SOFT, EVENT_HARD
REASONS_OUT = (Drop.HEADER, Drop.TOO_LONG, Drop.NO_POLICY, Drop.POLICY, Drop.NO_SA, Drop.HARD_LIMIT,
               Drop.NUMBERS, Drop.INNER, Drop.FRAGMENT, Drop.UNSUPPORTED)
REASONS_IN = (Drop.HEADER, Drop.TOO_LONG, Drop.NO_POLICY, Drop.POLICY, Drop.MISMATCH, Drop.NO_SA,
              Drop.HARD_LIMIT, Drop.REPLAY_LATE, Drop.REPLAY, Drop.INTEGRITY, Drop.PADDING,
              Drop.INNER, Drop.FRAGMENT, Drop.SHORT)
