"""Bench for both policy controllers, against a model of cv_spd that answers after any time."""

import os
import random

import beat
import cocotb
import ip
from cocotb.triggers import FallingEdge, ReadOnly
from records import (BYPASS, DISCARD, POLICY, POLICY_HDR, PROTECT, SELECTOR, Drop, pack, unpack)
from stream import Sink, Source, start, wait_for

INBOUND = os.environ["CV_direction"] == "in"


class Database:
    """Answers look-ups: the policy follows from the packet's ports."""

    def __init__(self, dut, delay, seed=3):
        self.dut, self.delay, self.random = dut, delay, random.Random(seed)
        dut.look_ready_i.value = dut.found_valid_i.value = dut.found_i.value = 0
        self.asked = 0

    @staticmethod
    def policy(select):
        """The policy of a packet, by its destination port."""
        if not select["dport"]:
            return {"valid": 0}
        return {"valid": 1, "action": select["dport"] & 3, "low": select["dport"] >> 2 & 1,
                "sa": select["dport"] >> 3 & 0x3FF, "priority": 7}

    async def run(self):
        dut = self.dut
        while True:
            dut.look_ready_i.value = 0
            for _ in range(self.delay()):
                await FallingEdge(dut.clk_i)
            dut.look_ready_i.value = 1
            while True:
                await ReadOnly()
                if int(dut.look_valid_o.value):
                    break
                await FallingEdge(dut.clk_i)
            select = unpack(SELECTOR, int(dut.look_o.value))
            self.asked += 1
            await FallingEdge(dut.clk_i)
            dut.look_ready_i.value = 0
            for _ in range(self.delay()):
                await FallingEdge(dut.clk_i)
            dut.found_valid_i.value = 1
            dut.found_i.value = pack(POLICY, self.policy(select))
            await FallingEdge(dut.clk_i)
            dut.found_valid_i.value = 0
            dut.found_i.value = self.random.getrandbits(300)


class Drops:
    """The drop reasons, in order."""

    def __init__(self, dut):
        self.dut, self.reasons = dut, []

    async def run(self):
        while True:
            await FallingEdge(self.dut.clk_i)
            await ReadOnly()
            if int(self.dut.drop_valid_o.value):
                self.reasons.append(int(self.dut.drop_reason_o.value))


async def set_up(dut, idle, stall, delay):
    fields = {"beat": dut.in_beat_i}
    outs = {"beat": dut.out_beat_o}
    if INBOUND:
        fields |= {"low": dut.in_low_i, "clear": dut.in_clear_i, "reqid": dut.in_reqid_i}
        outs |= {"low": dut.out_low_o}
    else:
        outs |= {"hdr": dut.out_hdr_o, "bypass": dut.out_bypass_o}
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o, fields, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i, outs, stall)
    database, drops = Database(dut, delay), Drops(dut)
    await start(dut)
    for part in (source, sink, database, drops):
        cocotb.start_soon(part.run())
    return source, sink, database, drops


def put(source, packet, came):
    """Offers a packet; what it came with holds with its first beat only."""
    for number, value in enumerate(beat.beats(packet)):
        item = {"beat": value}
        if INBOUND:
            item |= came if number == 0 else {
                "low": source.random.randrange(2), "clear": source.random.randrange(2),
                "reqid": source.random.randrange(1024)}
        source.put(item)


def verdict(packet, came):
    """(drop reason, what the packet goes on with)."""
    _, tail, info, select, *_ = ip.parse(packet)
    if tail != Drop.NONE:
        return tail, None
    policy = Database.policy(select)
    if not policy["valid"]:
        return Drop.NO_POLICY, None
    if policy["action"] not in (BYPASS, PROTECT):
        return Drop.POLICY, None
    if not INBOUND:
        hdr = {"low": policy["low"], "sa": policy["sa"], "ip": info}
        return Drop.NONE, {"hdr": pack(POLICY_HDR, hdr), "bypass": int(policy["action"] == BYPASS)}
    fits = came["clear"] if policy["action"] == BYPASS else \
        not came["clear"] and policy["sa"] == came["reqid"]
    return (Drop.NONE, {"low": came["low"]}) if fits else (Drop.MISMATCH, None)


def arrivals(rng, count):
    """Packets of every fate, with what they came with."""
    for _ in range(count):
        size = rng.choice([0, 1, 8, 20, 36, 100, rng.randrange(300)])
        action = rng.choice([DISCARD, BYPASS, BYPASS, PROTECT, PROTECT, PROTECT, 3])
        sa = rng.randrange(1024)
        dport = rng.choice([sa << 3 | rng.randrange(2) << 2 | action] * 8 + [0])
        payload = rng.getrandbits(16).to_bytes(2, "big") + dport.to_bytes(2, "big") + \
            rng.randbytes(size)
        build = rng.choice([ip.ipv4, ip.ipv6])
        packet = bytearray(build(payload, proto=rng.choice([6, 17]), tos=rng.randrange(256)))
        if rng.random() < 0.15:
            packet[rng.randrange(20)] ^= 1 << rng.randrange(8)
        if rng.random() < 0.05:
            packet = packet[:rng.randrange(1, len(packet))]
        came = {"low": rng.randrange(2), "clear": int(rng.random() < (0.8 if action == BYPASS else
                                                                      0.2)),
                "reqid": sa if rng.random() < 0.8 else rng.randrange(1024)}
        yield bytes(packet), came


async def check(dut, parts, sent):
    """Every packet leaves whole, in order and with its header, or is dropped for its reason."""
    source, sink, _, drops = parts
    verdicts = [verdict(*one) for one in sent]
    kept = [(p, v) for (p, _), (reason, v) in zip(sent, verdicts) if reason == Drop.NONE]
    reasons = [reason for reason, _ in verdicts if reason != Drop.NONE]
    beats = sum(len(beat.beats(p)) for p, _ in kept)
    await wait_for(dut.clk_i, lambda: not source.queue and len(sink.items) == beats and
                   len(drops.reasons) == len(reasons), 400000)
    for _ in range(30):
        await FallingEdge(dut.clk_i)
    assert drops.reasons == reasons
    assert beat.packets(item["beat"] for item in sink.items) == [p for p, _ in kept]
    headers = []
    for packet, hdr in kept:
        headers += [hdr] * len(beat.beats(packet))
    for item, hdr in zip(sink.items, headers, strict=True):
        assert {name: item[name] for name in hdr} == hdr
    return reasons


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.6], slow=[0, 30])
async def every_fate(dut, idle, stall, slow):
    """Packets that pass and packets that are dropped for each reason, in any order; the database
    takes no time or a long one."""
    rng = random.Random(slow)
    parts = await set_up(dut, idle, stall, lambda: rng.randrange(slow + 1))
    sent = list(arrivals(rng, 400))
    for packet, came in sent:
        put(parts[0], packet, came)
    reasons = set(await check(dut, parts, sent))
    wanted = {Drop.HEADER, Drop.TOO_LONG, Drop.NO_POLICY, Drop.POLICY}
    assert reasons == (wanted | {Drop.MISMATCH} if INBOUND else wanted)


def fixed(size, dport=PROTECT):
    """A packet of this size that passes, and what it came with."""
    return ip.ipv4(b"\0\1" + dport.to_bytes(2, "big") + bytes(size - 24)), \
        {"low": 1, "clear": 0, "reqid": dport >> 3}


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def longest(dut, stall):
    """Packets up to MaxBytes pass, longer ones vanish, however long they are."""
    parts = await set_up(dut, 0.0, stall, lambda: 20)
    sent = [fixed(size) for size in (9216, 9217, 64, 12000, 9216, 30000, 9232, 9215, 25)]
    for packet, came in sent:
        put(parts[0], packet, came)
    reasons = await check(dut, parts, sent)
    assert reasons == [Drop.TOO_LONG] * 4


@cocotb.test()
async def nothing_leaves_early(dut):
    """A packet whose length is wrong shows no beat, even if its policy was found long ago."""
    parts = await set_up(dut, 0.0, 0.0, lambda: 0)
    packet, came = fixed(1000)
    put(parts[0], packet + b"x", came)
    put(parts[0], packet[:-1], came)
    assert await check(dut, parts, [(packet + b"x", came), (packet[:-1], came)]) == \
        [Drop.TOO_LONG] * 2


@cocotb.test()
async def bad_headers_ask_nobody(dut):
    """A packet with a broken header takes no look-up."""
    parts = await set_up(dut, 0.0, 0.0, lambda: 0)
    packet, came = fixed(64)
    sent = [(b"\x45" + bytes(63), came)] * 5 + [(packet, came)]
    for one in sent:
        put(parts[0], *one)
    await check(dut, parts, sent)
    assert parts[2].asked == 1


@cocotb.test()
async def latency(dut):
    """A packet begins to leave 3 cycles after its last beat was taken, or 2 after its policy was
    found."""
    parts = await set_up(dut, 0.0, 0.0, lambda: 0)
    source, sink = parts[:2]
    packet, came = fixed(1500)
    put(source, packet, came)
    await wait_for(dut.clk_i, lambda: sink.times)
    assert sink.times[0] - source.taken[-1] == 3
    await wait_for(dut.clk_i, lambda: len(sink.items) == 94)
    parts[2].delay = lambda: 200
    found = []

    async def watch():
        while not found:
            await FallingEdge(dut.clk_i)
            await ReadOnly()
            if int(dut.found_valid_i.value):
                found.append(source.cycle)

    cocotb.start_soon(watch())
    put(source, packet, came)
    await wait_for(dut.clk_i, lambda: len(sink.items) > 94)
    assert sink.times[94] - found[0] == 2


@cocotb.test()
@cocotb.parametrize(size=[64, 240, 1500], look=[0, 40])
async def rate(dut, size, look):
    """The cycles of a packet: those of its beats (one more for each beat of headers), or those of
    the look-up and 2 more."""
    parts = await set_up(dut, 0.0, 0.0, lambda: 0)
    source, sink, database, _ = parts
    database.delay = iter_delay(look)
    packet, came = fixed(size)
    for _ in range(30):
        put(source, packet, came)
    beats = -(-size // 16)
    await wait_for(dut.clk_i, lambda: len(sink.items) == 30 * beats, 20000)
    lasts = sink.times[beats - 1::beats][5:]
    each = (lasts[-1] - lasts[0]) / (len(lasts) - 1)
    dut._log.info("%d bytes: %.1f cycles", size, each)
    assert each == max(beats + 2, look + 2)


def iter_delay(look):
    """Ready at once, then an answer `look` cycles after the question."""
    turn = [False]

    def delay():
        turn[0] = not turn[0]
        return 0 if turn[0] else max(look - 1, 0)
    return delay
