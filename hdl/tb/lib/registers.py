"""Software in front of a gateway under test: loads tables, takes events, reads counters and states."""

from collections import Counter

from axil import (BYTES_IN, BYTES_OUT, DROPS, EVENT, LANES, MAGIC, MODULES, PACKETS_IN, PACKETS_OUT,
                  STATUS, Axil)
from records import POLICY, POLICY_BUCKET, SA, SA_BUCKET, SHAPE, STATE, Drop, unpack, width
from sad_model import STATES
from site_plan import SAD_TABLES

WIDTHS = [width(layout) for layout in (POLICY_BUCKET, POLICY, SHAPE, SA, STATE, SA_BUCKET)]
INBOUND_TABLES = 8  # number of the first one


class Registers:
    """One access after the other, so not for coroutines side by side."""

    def __init__(self, dut, idle=0.2):
        self.dut, self.axil = dut, Axil(dut, idle)
        self.events = [[], []]  # outbound, inbound: (kind, SA)

    async def identify(self, modules):
        """What the gateway says that it is."""
        assert await self.axil.read(MAGIC) == int.from_bytes(b"CVGW", "big")
        assert await self.axil.read(MODULES) == modules * 0x01010101
        assert await self.axil.read(LANES) == modules * 0x01010100 | 2
        await self.axil.unlock()

    async def load(self, inbound, writes):
        for table, index, data in writes:
            await self.axil.write_record(INBOUND_TABLES * inbound + table, index, data, WIDTHS[table])

    async def take_events(self):
        while int(self.dut.irq_o.value):
            word = await self.axil.read(EVENT)
            assert word >> 31, "an interrupt without an event"
            self.events[word >> 30 & 1].append((word >> 28 & 3, word & 0xFFFF))

    async def dropped(self, inbound):
        await self.take_events()
        return sum([await self.axil.counter(inbound, DROPS + reason) for reason in Drop])

    async def check(self, inbound, model):
        """Counters, events and the SAs' states are the model's."""
        for counter, want in ((PACKETS_IN, model.packets_in), (PACKETS_OUT, model.packets_out),
                              (BYTES_IN, model.bytes_in), (BYTES_OUT, model.bytes_out)):
            got = await self.axil.counter(inbound, counter)
            assert got == want, f"counter {counter}: {got}, not {want}"
        drops = {reason: await self.axil.counter(inbound, DROPS + reason) for reason in Drop}
        assert Counter(drops) == model.drops, f"drops: {drops}, not {model.drops}"
        await self.take_events()
        assert Counter(self.events[inbound]) == Counter(model.events)
        assert await self.axil.read(STATUS) == 0
        for index in model.flows:
            state = await self.axil.read_record(INBOUND_TABLES * inbound + SAD_TABLES + STATES, index,
                                                width(STATE))
            model.check_state(index, unpack(STATE, state))
