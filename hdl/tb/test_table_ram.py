"""Bench for the memory of a table: what it holds after reset, and reads beside writes."""

import os
import random

import cocotb
from cocotb.triggers import FallingEdge
from stream import start

CLEARED, READS_OLD = int(os.environ["CV_Cleared"]), os.environ["CV_ReadsOld"] == "1'b1"
BITS, RECORDS = 8, 16


async def run(dut, steps):
    """A step in every cycle: what to read, what to write (or None), with what. Returns what was read."""
    records = []
    for read, write, data in steps:
        dut.read_index_i.value = read
        dut.write_i.value = int(write is not None)
        dut.write_index_i.value = write or 0
        dut.write_data_i.value = data
        await FallingEdge(dut.clk_i)
        records.append(int(dut.read_data_o.value))
    dut.write_i.value = 0
    return records


async def reset(dut, data):
    """Resets with `data` on the input; returns the cycles until the memory is ready."""
    for name in ("write_i", "write_index_i", "read_index_i"):
        getattr(dut, name).value = 0
    dut.write_data_i.value = data
    await start(dut)
    cycles = 1  # `start` lets one pass
    while not int(dut.ready_o.value):
        await FallingEdge(dut.clk_i)
        cycles += 1
    return cycles


@cocotb.test()
async def cleared_after_reset(dut):
    """Of every record so many bits, from the highest; the others are what the input was."""
    assert await reset(dut, 0xFF) == RECORDS
    want = 0xFF >> CLEARED
    assert await run(dut, [(index, None, 0) for index in range(RECORDS)]) == [want] * RECORDS
    await run(dut, [(0, index, 0xA5) for index in range(RECORDS)])
    dut.rst_ni.value = 0
    dut.write_data_i.value = 0
    await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    for _ in range(RECORDS):
        assert not int(dut.ready_o.value)
        await FallingEdge(dut.clk_i)
    assert int(dut.ready_o.value)
    assert await run(dut, [(index, None, 0) for index in range(RECORDS)]) == [0] * RECORDS


@cocotb.test()
async def follows_model(dut):
    """Random reads and writes in every cycle; a read beside a write of the same record too."""
    rng = random.Random(1)
    await reset(dut, 0)
    steps = [(index, index, rng.getrandbits(BITS)) for index in range(RECORDS)]
    for _ in range(2000):
        write = rng.randrange(RECORDS) if rng.random() < 0.5 else None
        read = write if write is not None and rng.random() < 0.3 else rng.randrange(RECORDS)
        steps.append((read, write, rng.getrandbits(BITS)))
    kept, clashes = [0] * RECORDS, 0
    for got, (read, write, data) in zip(await run(dut, steps), steps, strict=True):
        clash = read == write
        clashes += clash
        want = kept[read] if READS_OLD or not clash else kept[read] ^ 0xFF
        assert got == want, (read, write)
        if write is not None:
            kept[write] = data
    assert clashes > 300
