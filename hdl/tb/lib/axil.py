"""An AXI4-Lite master for benches, and the gateway's registers behind it."""

import random

from cocotb.triggers import FallingEdge, ReadOnly

# The map of gateway_regs_pkg.
MAGIC, VERSION, MODULES, LANES, MODES, SIZES, LIMITS = range(0, 0x1C, 4)
COMMAND, INDEX, STATUS, EVENT = 0x20, 0x24, 0x28, 0x30
RECORD, COUNTER = 0x100, 0x400
OUT_BUCKETS, OUT_POLICIES, OUT_SHAPES, OUT_SAS, OUT_STATES = range(5)
IN_BUCKETS, IN_POLICIES, IN_SHAPES, IN_SAS, IN_STATES, IN_SA_BUCKETS = range(8, 14)
PACKETS_IN, PACKETS_OUT, BYTES_IN, BYTES_OUT, DROPS = range(5)


class Axil:
    """One access at a time of each kind; address and data of a write come in any order."""

    def __init__(self, dut, idle=0.3, seed=1, prefix="axil_"):
        self.dut, self.idle, self.random = dut, idle, random.Random(seed)
        self.port = lambda name: getattr(dut, prefix + name)
        for name in ("awvalid_i", "awaddr_i", "wvalid_i", "wdata_i", "wstrb_i", "bready_i",
                     "arvalid_i", "araddr_i", "rready_i"):
            self.port(name).value = 0

    def _late(self):
        count = 0
        while self.random.random() < self.idle:
            count += 1
        return count

    async def write(self, address, data, strobe=15, limit=2000):
        """Writes a word; returns the response."""
        port, clk = self.port, self.dut.clk_i
        waits = {"aw": self._late(), "w": self._late()}
        ready_in = self._late()
        open_ = {"aw", "w"}
        port("awaddr_i").value = address
        port("wdata_i").value, port("wstrb_i").value = data, strobe
        for _ in range(limit):
            await FallingEdge(clk)
            for name in ("aw", "w"):
                waits[name] -= 1
                port(f"{name}valid_i").value = int(name in open_ and waits[name] < 0)
            ready_in -= 1
            port("bready_i").value = int(ready_in < 0)
            await ReadOnly()
            for name in list(open_):
                if int(port(f"{name}valid_i").value) and int(port(f"{name}ready_o").value):
                    open_.remove(name)
            if int(port("bvalid_o").value) and ready_in < 0:
                assert not open_, "a response before its write"
                response = int(port("bresp_o").value)
                await FallingEdge(clk)
                for name in ("awvalid_i", "wvalid_i", "bready_i"):
                    port(name).value = 0
                return response
        raise AssertionError("no response to a write")

    async def read(self, address, limit=2000):
        """Reads a word."""
        port, clk = self.port, self.dut.clk_i
        wait, ready_in, asked = self._late(), self._late(), False
        port("araddr_i").value = address
        for _ in range(limit):
            await FallingEdge(clk)
            wait, ready_in = wait - 1, ready_in - 1
            port("arvalid_i").value = int(not asked and wait < 0)
            port("rready_i").value = int(ready_in < 0)
            await ReadOnly()
            if int(port("arvalid_i").value) and int(port("arready_o").value):
                asked = True
            elif asked and int(port("rvalid_o").value) and ready_in < 0:
                assert int(port("rresp_o").value) == 0
                data = int(port("rdata_o").value)
                await FallingEdge(clk)
                port("arvalid_i").value = port("rready_i").value = 0
                return data
        raise AssertionError("no response to a read")

    async def done(self):
        """Waits until no table access runs."""
        while await self.read(STATUS) & 1:
            pass

    async def unlock(self):
        """Has each unit end an access, behind which its records are empty and RECORD may be written."""
        for table in (OUT_POLICIES, OUT_SAS, IN_POLICIES, IN_SAS):
            assert await self.write(COMMAND, table) == 0
            await self.done()

    async def write_record(self, table, index, record, bits):
        for word in range(-(-bits // 32)):
            assert await self.write(RECORD + 4 * word, record >> 32 * word & 0xFFFFFFFF) == 0
        assert await self.write(INDEX, index) == 0
        assert await self.write(COMMAND, table | 0x100) == 0
        await self.done()

    async def read_record(self, table, index, bits):
        assert await self.write(INDEX, index) == 0
        assert await self.write(COMMAND, table) == 0
        await self.done()
        words = [await self.read(RECORD + 4 * word) for word in range(-(-bits // 32))]
        return sum(word << 32 * number for number, word in enumerate(words))

    async def counter(self, inbound, number):
        address = COUNTER + 0x100 * inbound + 8 * number
        low = await self.read(address)
        return low | await self.read(address + 4) << 32
