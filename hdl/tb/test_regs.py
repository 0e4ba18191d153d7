"""Bench for registers and table access, with models of the tables behind it."""

import os
import random
import re
from pathlib import Path

import cocotb
from axil import (BYTES_IN, BYTES_OUT, COMMAND, DROPS, EVENT, INDEX, IN_SA_BUCKETS, IN_SAS, IN_SHAPES,
                  IN_POLICIES, LANES, LIMITS, MAGIC, MODES, MODULES, OUT_BUCKETS, OUT_POLICIES,
                  OUT_SAS, OUT_SHAPES, OUT_STATES, PACKETS_IN, PACKETS_OUT, RECORD, SIZES, STATUS,
                  VERSION, Axil)
from cocotb.triggers import FallingEdge, ReadOnly
from lanes import Lanes
from records import EVENT as EVENT_RECORD
from records import (POLICY, POLICY_BUCKET, SA, SA_BUCKET, SHAPE, STATE, Drop, pack, places, width)
from stream import start, wait_for

SOURCES = int(os.environ["CV_Sources"])
ROOT = Path(__file__).resolve().parent.parent
# Unit (0 and 1: cv_spd, 2 and 3: cv_sad) and its table for each table that exists.
UNITS = {8 * d + t: (d, t) if t < 3 else (2 + d, t - 3)
         for d in range(2) for t in range(6) if (d, t) != (0, 5)}
SPD_BITS, SAD_BITS = width(POLICY), width(SA)


class Tables:
    """Four table ports that keep what they are given and take their time."""

    def __init__(self, dut, slow=5):
        self.dut, self.slow, self.random = dut, slow, random.Random(4)
        self.kept = {}
        self.accesses = []
        self.spd = Lanes(dut.spd_data_i, SPD_BITS, 2)
        self.sad = Lanes(dut.sad_data_i, SAD_BITS, 2)
        dut.spd_ready_i.value = dut.sad_ready_i.value = 0

    async def run(self):
        dut = self.dut
        while True:
            await FallingEdge(dut.clk_i)
            await ReadOnly()
            valid = int(dut.spd_valid_o.value) | int(dut.sad_valid_o.value) << 2
            if not valid:
                continue
            assert valid & valid - 1 == 0, "one access at a time"
            unit = valid.bit_length() - 1
            place = (unit, int(dut.tbl_table_o.value), int(dut.tbl_index_o.value))
            write = int(dut.tbl_write_o.value)
            bits = SPD_BITS if unit < 2 else SAD_BITS
            if write:
                self.kept[place] = int(dut.tbl_data_o.value) & (1 << bits) - 1
            self.accesses.append((write, place))
            for _ in range(self.random.randrange(self.slow)):
                await FallingEdge(dut.clk_i)
            await FallingEdge(dut.clk_i)
            # The answer stays until the next access; what other units hold is of no account.
            for other in range(4):
                lanes, bits = (self.spd, SPD_BITS) if other < 2 else (self.sad, SAD_BITS)
                answer = self.kept.get(place, 0) if other == unit else self.random.getrandbits(bits)
                lanes.lane(other & 1).value = answer
            ready = dut.spd_ready_i if unit < 2 else dut.sad_ready_i
            ready.value = 1 << (unit & 1)
            await FallingEdge(dut.clk_i)
            ready.value = 0


async def set_up(dut, idle=0.3, slow=5, unlock=True):
    axil, tables = Axil(dut, idle), Tables(dut, slow)
    for name in ("event_valid_i", "event_i", "event_missed_i", "packet_in_i", "bytes_in_i",
                 "packet_out_i", "bytes_out_i", "drop_valid_i", "drop_reason_i"):
        getattr(dut, name).value = 0
    await start(dut)
    cocotb.start_soon(tables.run())
    if unlock:
        await axil.unlock()
        tables.accesses.clear()
    return axil, tables


@cocotb.test()
async def identification(dut):
    """What the gateway is, from its parameters."""
    axil, _ = await set_up(dut)
    assert await axil.read(MAGIC) == int.from_bytes(b"CVGW", "big")
    assert await axil.read(VERSION) == 0x00010002
    assert await axil.read(MODULES) == 0x04040400
    assert await axil.read(LANES) == 0x00040002
    assert await axil.read(MODES) == 0
    assert await axil.read(SIZES) == 0x0A0A0B08
    assert await axil.read(LIMITS) == 9216 << 16 | 128
    for address in (0x1C, 0x2C, 0x34, 0xFC, 0x1A4, 0x200, 0x3FC, 0x600, 0x8000, 0xFFFC):
        assert await axil.read(address) == 0, hex(address)
        assert await axil.write(address, 0xFFFFFFFF) == 0
    assert await axil.read(MAGIC) == int.from_bytes(b"CVGW", "big")


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5])
async def tables(dut, idle):
    """Every table is reached, under its number, and keeps its records."""
    rng = random.Random(1)
    axil, model = await set_up(dut, idle)
    sizes = [width(r) for r in (POLICY_BUCKET, POLICY, SHAPE, SA, STATE, SA_BUCKET)]
    written = {}
    for table in UNITS:
        for index in (0, rng.getrandbits(16)):
            bits = sizes[table & 7]
            written[table, index] = rng.getrandbits(bits)
            await axil.write_record(table, index, written[table, index], bits)
            unit, kind = UNITS[table]
            assert model.accesses[-1] == (1, (unit, kind, index))
            got = model.kept[unit, kind, index]
            assert got & (1 << bits) - 1 == written[table, index]
            # What is above the record is left from the one before, and nobody's business.
            model.kept[unit, kind, index] = written[table, index]
    for (table, index), record in written.items():
        assert await axil.read_record(table, index, SAD_BITS) == record
        assert model.accesses[-1] == (0, (*UNITS[table], index))


@cocotb.test()
async def what_is_refused(dut):
    """Commands for tables that do not exist, and changes while an access runs."""
    axil, model = await set_up(dut, 0.0, slow=1)
    for table in range(256):
        if table not in UNITS:
            assert await axil.write(COMMAND, table) == 2
    assert not model.accesses and await axil.read(STATUS) == 0
    model.random.randrange = lambda _: 60
    await axil.write(RECORD, 7)
    await axil.write(INDEX, 3)
    assert await axil.write(COMMAND, OUT_POLICIES | 0x100) == 0
    for address in (RECORD, INDEX, COMMAND):
        assert await axil.write(address, 0x109) == 2
    assert await axil.read(STATUS) == 1
    await axil.done()
    assert await axil.read(INDEX) == 3 and await axil.read(RECORD) == 7
    assert await axil.read(COMMAND) == OUT_POLICIES | 0x100
    assert len(model.accesses) == 1 and model.kept[0, 1, 3] & 0xFFFFFFFF == 7


@cocotb.test()
async def strobes(dut):
    """A write changes the bytes that its strobes name."""
    rng = random.Random(2)
    axil, _ = await set_up(dut)
    words = [0] * 41
    for word in range(41):
        await axil.write(RECORD + 4 * word, 0)
    for _ in range(200):
        word, data, strobe = rng.randrange(41), rng.getrandbits(32), rng.randrange(16)
        await axil.write(RECORD + 4 * word, data, strobe)
        mask = sum(0xFF << 8 * i for i in range(4) if strobe >> i & 1)
        words[word] = words[word] & ~mask | data & mask
    for word, want in enumerate(words):
        assert await axil.read(RECORD + 4 * word) == want


@cocotb.test()
@cocotb.parametrize(last=[OUT_POLICIES, OUT_SAS, IN_POLICIES, IN_SAS])
async def record_is_locked(dut, last):
    """After reset RECORD is zero for software and for the tables, and takes nothing until each of the
    four units has ended an access, whichever comes last, and whatever was written before."""
    axil, model = await set_up(dut, 0.0, slow=40)
    for word in range(42):
        await axil.write(RECORD + 4 * word, 0xFFFFFFFF)
    assert int(dut.tbl_data_o.value) == (1 << SAD_BITS) - 1
    model.kept.clear()
    dut.rst_ni.value = 0
    await FallingEdge(dut.clk_i)
    assert int(dut.tbl_data_o.value) == 0
    dut.rst_ni.value = 1
    await FallingEdge(dut.clk_i)
    # Other tables of a unit serve as well, and writes do.
    others = {OUT_POLICIES: OUT_SHAPES | 0x100, OUT_SAS: OUT_STATES, IN_POLICIES: IN_SHAPES,
              IN_SAS: IN_SA_BUCKETS | 0x100}
    for table in [*(t for t in others if t != last), last]:
        assert await axil.read(STATUS) == 8
        for word in (0, 41):
            assert await axil.write(RECORD + 4 * word, 0xFFFFFFFF) == 2
        assert await axil.write(COMMAND, others[table]) == 0
        while await axil.read(STATUS) & 1:
            assert int(dut.tbl_data_o.value) == 0
    assert not any(model.kept.values()) and await axil.read(STATUS) == 0
    for word in range(42):
        assert await axil.read(RECORD + 4 * word) == 0
    assert await axil.write(RECORD + 4 * 41, 1) == 0
    assert int(dut.tbl_data_o.value) == 1 << 32 * 41


@cocotb.test()
async def events(dut):
    """Each event is read once, outbound ones first; the interrupt is there while one waits."""
    axil, _ = await set_up(dut)
    waiting = [[{"kind": 0, "sa": 5}, {"kind": 2, "sa": 1023}], [{"kind": 1, "sa": 700}]]
    lanes = Lanes(dut.event_i, width(EVENT_RECORD), 2)

    async def offer():
        while True:
            await FallingEdge(dut.clk_i)
            for d in range(2):
                lanes.lane(d).value = pack(EVENT_RECORD, waiting[d][0]) if waiting[d] else 0
            dut.event_valid_i.value = sum(bool(w) << d for d, w in enumerate(waiting))
            await ReadOnly()
            taken = int(dut.event_ready_o.value) & int(dut.event_valid_i.value)
            for d in range(2):
                if taken >> d & 1:
                    waiting[d].pop(0)

    assert await axil.read(EVENT) == 0 and not int(dut.irq_o.value)
    cocotb.start_soon(offer())
    await wait_for(dut.clk_i, lambda: int(dut.irq_o.value), 10)
    assert await axil.read(EVENT) == 1 << 31 | 0 << 28 | 5
    assert await axil.read(EVENT) == 1 << 31 | 2 << 28 | 1023
    assert await axil.read(EVENT) == 1 << 31 | 1 << 30 | 1 << 28 | 700
    assert await axil.read(EVENT) == 0 and not int(dut.irq_o.value)
    # Missed ones: told by the status and cleared by writing a one.
    cleared = []

    async def watch():
        while True:
            await FallingEdge(dut.clk_i)
            await ReadOnly()
            if int(dut.event_clear_o.value):
                cleared.append(int(dut.event_clear_o.value))

    cocotb.start_soon(watch())
    await FallingEdge(dut.clk_i)
    dut.event_missed_i.value = 2
    assert await axil.read(STATUS) == 4 and int(dut.irq_o.value)
    await axil.write(STATUS, 4)
    await axil.read(STATUS)
    assert cleared == [2]


@cocotb.test()
@cocotb.parametrize(busy=[False, True])
async def counters(dut, busy):
    """Every packet, byte and drop is counted once, also when all happen in every cycle and while
    counters are read."""
    rng = random.Random(3)
    axil, _ = await set_up(dut, 0.0)
    want = [[0] * 21 for _ in range(2)]
    cycles = 3000
    bytes_in, bytes_out = (Lanes(s, 5, 2) for s in (dut.bytes_in_i, dut.bytes_out_i))
    reasons = Lanes(dut.drop_reason_i, 5, 2 * SOURCES)
    stop = []

    async def happen():
        for cycle in range(cycles):
            await FallingEdge(dut.clk_i)
            full = cycle < 1000
            masks = [rng.randrange(4) if not full else 3 for _ in range(2)]
            dut.packet_in_i.value, dut.packet_out_i.value = masks
            drops = (1 << 2 * SOURCES) - 1 if full else rng.getrandbits(2 * SOURCES)
            dut.drop_valid_i.value = drops
            one = rng.randrange(1, 17)
            for d in range(2):
                want[d][PACKETS_IN] += masks[0] >> d & 1
                want[d][PACKETS_OUT] += masks[1] >> d & 1
                for lane, number in ((bytes_in, BYTES_IN), (bytes_out, BYTES_OUT)):
                    size = 16 if full else rng.randrange(17)
                    lane.lane(d).value = size
                    want[d][number] += size
                for i in range(SOURCES):
                    reason = one if full else rng.randrange(1, 17)
                    reasons.lane(d * SOURCES + i).value = reason
                    want[d][DROPS + reason] += drops >> d * SOURCES + i & 1
        await FallingEdge(dut.clk_i)
        for name in ("packet_in_i", "packet_out_i", "bytes_in_i", "bytes_out_i", "drop_valid_i"):
            getattr(dut, name).value = 0
        stop.append(1)

    cocotb.start_soon(happen())
    last = 0
    while not stop:
        await FallingEdge(dut.clk_i)
        if busy:
            now = await axil.counter(1, BYTES_OUT)
            assert now >= last
            last = now
    for _ in range(128):
        await FallingEdge(dut.clk_i)
    for d in range(2):
        for number in range(21):
            assert await axil.counter(d, number) == want[d][number], (d, number)
    assert want[0][BYTES_IN] > 1 << 14 and min(want[1][DROPS + 1:]) > 0


@cocotb.test()
async def halves_belong_together(dut):
    """The upper half is that of the moment in which the lower one was read."""
    axil, _ = await set_up(dut, 0.0)
    # The memory's own words: 2^32 - 8 bytes so far.
    place = (1 << 5) + BYTES_IN
    for _ in range(70):
        await FallingEdge(dut.clk_i)
    dut.u_counters.mem_q[place].value = (1 << 32) - 8
    await FallingEdge(dut.clk_i)
    address = 0x500 + 8 * BYTES_IN
    assert await axil.read(address) == 0xFFFFFFF8
    dut.bytes_in_i.value = 16 << 5
    await FallingEdge(dut.clk_i)
    dut.bytes_in_i.value = 0
    for _ in range(128):
        await FallingEdge(dut.clk_i)
    assert await axil.read(address + 4) == 0
    assert await axil.read(address) == 8 and await axil.read(address + 4) == 1


@cocotb.test()
async def latency(dut):
    """Cycles from an access to its answer."""
    axil, _ = await set_up(dut, 0.0)
    await axil.read(MAGIC)

    async def cycles(action, valid, done):
        begin, end = [], []

        async def watch():
            for cycle in range(40):
                await FallingEdge(dut.clk_i)
                await ReadOnly()
                if not begin and int(getattr(dut, valid).value):
                    begin.append(cycle)
                if not end and int(getattr(dut, done).value):
                    end.append(cycle)

        task = cocotb.start_soon(watch())
        await action
        await task
        await FallingEdge(dut.clk_i)
        return end[0] - begin[0]

    assert await cycles(axil.read(MAGIC), "axil_arvalid_i", "axil_rvalid_o") == 2
    assert await cycles(axil.read(0x400), "axil_arvalid_i", "axil_rvalid_o") == 3
    assert await cycles(axil.write(INDEX, 1), "axil_awvalid_i", "axil_bvalid_o") == 2


@cocotb.test()
async def page_is_right(dut):
    """The tables of doc/registers.md give every field of every record its bits, every drop reason
    and register its place."""
    await set_up(dut)
    page = (ROOT / "doc" / "registers.md").read_text(encoding="utf-8")

    def lines(layout, base=0, prefix=""):
        for (name, high, low), (_, kind) in zip(places(layout, base), layout):
            if isinstance(kind, int):
                yield f"| `{prefix}{name}` | {high if high == low else f'{high}:{low}'} |"
            else:
                yield from lines(kind, low, f"{prefix}{name}.")

    for layout in (POLICY_BUCKET, POLICY, SHAPE, SA, STATE, SA_BUCKET):
        for line in lines(layout):
            assert line in page, line
    for reason in Drop:
        assert re.search(rf"^\| {int(reason)} \| `Drop\w+` \| {8 * (DROPS + reason):02x} \|", page,
                         re.MULTILINE), reason
    package = (ROOT / "rtl" / "gateway" / "gateway_regs_pkg.sv").read_text(encoding="utf-8")
    for name, address in re.findall(r"Reg(\w+)\s*= 16'h(\w+);", package):
        assert re.search(rf"^\| {address} \| `{name.upper()}`", page, re.MULTILINE), name
    for name, number in re.findall(r"Table(\w+)\s*= 4'd(\d+);", package):
        assert re.search(rf"^\| {number} \|", page, re.MULTILINE), name
