"""Software's side of a table port (cv_spd, cv_sad): writes and reads one record at a time."""

from cocotb.triggers import FallingEdge, ReadOnly


class TablePort:
    """Accesses through `tbl_*`; one at a time, so that coroutines do not share an instance."""

    def __init__(self, dut, limit=20000):
        self.dut, self.limit = dut, limit
        dut.tbl_valid_i.value = 0
        for name in ("write", "table", "index", "data"):
            getattr(dut, f"tbl_{name}_i").value = 0

    async def access(self, table, index, data=None):
        """Writes `data`, or reads and returns the record."""
        dut = self.dut
        await FallingEdge(dut.clk_i)
        dut.tbl_valid_i.value = 1
        dut.tbl_write_i.value = int(data is not None)
        dut.tbl_table_i.value, dut.tbl_index_i.value = table, index
        dut.tbl_data_i.value = data or 0
        for _ in range(self.limit):
            await ReadOnly()
            if int(dut.tbl_ready_o.value):
                result = int(dut.tbl_data_o.value)
                await FallingEdge(dut.clk_i)
                dut.tbl_valid_i.value = 0
                return result
            await FallingEdge(dut.clk_i)
        raise AssertionError("a table access does not end")

    async def write(self, table, index, data):
        await self.access(table, index, data)

    async def read(self, table, index):
        return await self.access(table, index)

    async def load(self, writes):
        """Writes a list of (table, index, data)."""
        for table, index, data in writes:
            await self.write(table, index, data)
