"""Bench for the HMAC section, outbound: every length of data against Python's hmac, cycles."""

import hmac
import os
import struct
from dataclasses import dataclass

import beat
import cocotb
import esp
from stream import Sink, Source, start, wait_for

AUTH = {0: "AuthNone", 1: "AuthSha1", 2: "AuthSha256"}[int(os.environ["CV_Auth"][-1])]
NAME, ICV_BYTES = esp.HASHES.get(AUTH, (None, 0))
CYCLES = {None: 0, "sha1": 80, "sha256": 64}[NAME] // int(os.environ.get("CV_RoundsPerCycle", 1))
HDR_BITS = esp.LAYOUT.widths["auth_hdr_t"]


@dataclass
class Packet:
    """One packet at the input, and what must leave."""

    data: bytes
    hdr: int
    wire: bytes
    blocks: int  # of the HMAC, the outer one too


def packet(rng, length, net_bytes=None, esn=None):
    """A packet of random bytes with `length` bytes of data."""
    key = b"key %d" % rng.randrange(8)
    net = rng.randbytes(net_bytes or rng.choice([20, 40]))
    esn = rng.random() < 0.5 if esn is None else esn
    spi, number = rng.getrandbits(32), rng.getrandbits(64)
    head = struct.pack(">II", spi, number & 0xFFFFFFFF)
    data = rng.randbytes(length)
    iv = struct.pack(">Q", rng.getrandbits(64))
    iv_here = NAME is None and rng.random() < 0.8
    text = head + data + (struct.pack(">I", number >> 32) if esn else b"")
    hdr = esp.LAYOUT.pack(
        "auth_hdr_t", auth=AUTH, low=rng.getrandbits(1),
        auth_keys=esp.pad_states(NAME, key) if NAME else rng.getrandbits(512),
        frame={
            "net": int.from_bytes(net + rng.randbytes(40 - len(net)), "big"),
            "net_bytes": len(net), "esp": int.from_bytes(head, "big"), "high": number >> 32,
            "esn": esn, "iv_here": iv_here, "iv": int.from_bytes(iv, "big"),
        })
    icv = hmac.digest(key, text, NAME)[:ICV_BYTES] if NAME else b""
    return Packet(data, hdr, net + head + (iv if iv_here else b"") + data + icv,
                  (len(text) + 9 + 63) // 64 + 1)


async def set_up(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "hdr": dut.in_hdr_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i, {"beat": dut.out_beat_o}, stall)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    return source, sink


def put(source, item):
    """Offers a packet; its header is right with the first beat, and noise behind it."""
    for number, value in enumerate(beat.beats(item.data)):
        hdr = item.hdr
        if number:  # IP headers keep one of their lengths
            fields = esp.LAYOUT.unpack("auth_hdr_t", source.random.getrandbits(HDR_BITS))
            fields["frame"].update(net_bytes=source.random.choice([20, 40]), iv_here=0)
            hdr = esp.LAYOUT.pack("auth_hdr_t", **fields)
        source.put({"beat": value, "hdr": hdr})


async def run(dut, source, sink, items):
    """Sends packets through; returns the cycles in which first and last beats left."""
    for item in items:
        put(source, item)
    counts = [len(beat.beats(item.wire)) for item in items]
    await wait_for(dut.clk_i, lambda: len(sink.items) >= sum(counts), 400_000)
    got = beat.packets(sink.items)
    for number, (have, item) in enumerate(zip(got, items, strict=True)):
        assert have == item.wire, f"packet {number} of {len(item.data)} bytes"
    ends = [sum(counts[: i + 1]) - 1 for i in range(len(counts))]
    first = [sink.times[end - count + 1] for end, count in zip(ends, counts)]
    return first, [sink.times[end] for end in ends]


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.9])
async def every_length(dut, idle, stall):
    """Every multiple of 4 bytes from 4 to 264 and around 1500 and 9000, either IP header, ESN on
    and off. (The cipher's data has whole words at least.)"""
    source, sink = await set_up(dut, idle, stall)
    lengths = [*range(4, 268, 4), *range(1480, 1548, 4)]
    if idle == stall:
        lengths += [8976, 8984, 9000, 9016, 9208, 9216, 24]
    source.random.shuffle(lengths)
    await run(dut, source, sink, [packet(source.random, n) for n in lengths])


@cocotb.test()
async def every_kind(dut):
    """Both IP headers with and without ESN, for all data lengths of one hash block and more."""
    source, sink = await set_up(dut, 0.2, 0.2)
    await run(dut, source, sink, [packet(source.random, n, net, esn) for n in range(8, 80, 4)
                                  for net in (20, 40) for esn in (False, True)])


@cocotb.test(skip=NAME is None)
@cocotb.parametrize(length=[24, 96, 1520, 9024])
async def cycles(dut, length):
    """Packets in a row: one in n * B + 1 cycles. The first one leaves while its last blocks are
    hashed, but not before all of it has come. A packet leaves without gaps."""
    source, sink = await set_up(dut, 0.0, 0.0)
    items = [packet(source.random, length, 40, False) for _ in range(4 if length > 9000 else 8)]
    first, last = await run(dut, source, sink, items)
    gaps = [b - a for a, b in zip(last, last[1:])]
    blocks = items[0].blocks
    alone = last[0] - source.taken[0]
    ready = first[0] - source.taken[len(beat.beats(items[0].data)) - 1]
    dut._log.info("%d bytes, %d blocks: leaves in cycles %d to %d, %d after its last beat came, then a "
                  "packet in %s", length, blocks, first[0] - source.taken[0], alone, ready, gaps)
    spills = (length + 48) % 16 not in range(1, 17 - ICV_BYTES)
    if length < 9000:
        assert 0 <= alone - (blocks * CYCLES + 9 + spills) <= 8
    else:
        assert ready == 6
    assert max(gaps) <= blocks * CYCLES + 1
    for begin, end, item in zip(first, last, items):
        assert end - begin + 1 == len(beat.beats(item.wire))


@cocotb.test(skip=NAME is None)
async def cycles_mixed(dut):
    """Packets of any lengths in a row take the sum of n * B + 1."""
    source, sink = await set_up(dut, 0.0, 0.0)
    items = [packet(source.random, 8 * source.random.choice([3, 12, 12, 30, 70, 190]))
             for _ in range(60)]
    _, last = await run(dut, source, sink, items)
    bound = sum(item.blocks * CYCLES + 1 for item in items[1:])
    # The last packet's beats leave behind its ICV, and so do the first one's.
    slack = len(beat.beats(items[-1].wire)) - len(beat.beats(items[0].wire))
    dut._log.info("%d packets: %d cycles, bound %d", len(items), last[-1] - last[0], bound)
    assert last[-1] - last[0] <= bound + slack


@cocotb.test(skip=NAME is not None)
async def full_rate(dut):
    """Without an HMAC an output beat leaves in every cycle, 2 cycles behind the first one's coming."""
    source, sink = await set_up(dut, 0.0, 0.0)
    items = [packet(source.random, 4 * source.random.randint(1, 100)) for _ in range(100)]
    first, _ = await run(dut, source, sink, items)
    assert sink.times[-1] - sink.times[0] == len(sink.times) - 1
    assert first[0] - source.taken[0] == 2
