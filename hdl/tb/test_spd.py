"""Bench for the security policy database: several clients at once, against a model that tries every
policy."""

import os
import random

import cocotb
from cocotb.triggers import FallingEdge
from lanes import Lanes, watch
from records import (BYPASS, DISCARD, POLICY, POLICY_BUCKET, PROTECT, SELECTOR, SHAPE, pack, unpack,
                     width)
from spd_model import BUCKETS, POLICIES, SHAPE_TABLE, Spd, bucket_of, masked
from stream import Sink, Source, start, wait_for
from tables import TablePort

N = int(os.environ["CV_N"])
HASH_BYTES = int(os.environ["CV_HashBytes"])
MAX_CHAIN = int(os.environ["CV_MaxChain"])


async def set_up(dut, idle=0.3):
    """Returns the clients' sources and sinks, and the table port."""
    table = TablePort(dut)
    valid, look = Lanes(dut.look_valid_i, 1, N), Lanes(dut.look_i, width(SELECTOR), N)
    sources, sinks = [], []
    for i in range(N):
        sources.append(Source(dut.clk_i, valid.lane(i), watch(dut.look_ready_o, 1, i),
                              {"look": look.lane(i)}, idle, seed=i))
        # An answer is there for one cycle, whether somebody takes it or not.
        ready = type("Unused", (), {"value": 0})()
        sinks.append(Sink(dut.clk_i, watch(dut.found_valid_o, 1, i), ready,
                          {"found": watch(dut.found_o, width(POLICY), i)}, 0.0))
    await start(dut)
    for port in sources + sinks:
        cocotb.start_soon(port.run())
    return sources, sinks, table


def address(rng, v6):
    return rng.getrandbits(128) if v6 else rng.getrandbits(32) << 96


def selector(rng, v6):
    return {"v6": v6, "src": address(rng, v6), "dst": address(rng, v6),
            "proto": rng.choice([1, 6, 17, 50]), "sport": rng.choice([0, 500, 53, 4500]),
            "dport": rng.choice([0, 22, 80, 443])}


def told(policy):
    """A policy as the database tells it."""
    if policy is None:
        return {"valid": 0}
    return {name: policy.get(name, 0)
            for name in ("valid", "shape", "action", "low", "priority", "sa")}


def check(asked, answers, models):
    """Each answer is that of one of the models, the database's states during the look-up."""
    for look, answer in zip(asked, answers, strict=True):
        got = unpack(POLICY, answer)
        wants = [told(m.look(look)) for m in models]
        assert any(got["valid"] == w["valid"] and (not w["valid"] or w.items() <= got.items())
                   for w in wants), f"{look}: {got}, not {wants}"
        assert got["more"] == got["next"] == 0 and not any(got["selector"].values())


async def ask(dut, sources, sinks, looks, models):
    """Spreads look-ups over the clients and checks every answer."""
    lanes = [looks[i::N] for i in range(N)]
    for sink in sinks:
        sink.items.clear()
    for source, lane in zip(sources, lanes):
        for look in lane:
            source.put(pack(SELECTOR, look))
    await wait_for(dut.clk_i, lambda: all(len(s.items) == len(l) for s, l in zip(sinks, lanes)),
                   400 * len(looks) + 1000)
    for sink, lane in zip(sinks, lanes):
        check(lane, sink.items, models)


def matching(rng, policy, shape):
    """A selector that a policy matches, with random bits where they do not count."""
    wild = selector(rng, policy["selector"]["v6"])
    kept, noise = masked(wild, shape), dict(wild)
    for name in ("src", "dst", "proto", "sport", "dport"):
        noise[name] ^= kept[name] ^ policy["selector"][name]
    return noise


def fill(rng, model, shapes, count):
    """Random policies in these shapes; returns the writes."""
    writes = []
    for index in rng.sample(range(1024), count):
        number = rng.choice(shapes)
        look = selector(rng, model.shapes[number]["v6"])
        # Few values, so that policies of several shapes match the same packets.
        look["src"] &= 0x3 << 126 | 0x7 << 96 | 0x3
        look["dst"] &= 0x1 << 127 | 0x3 << 96
        if any(p["shape"] == number and p["selector"] == masked(look, model.shapes[number])
               for p in model.policies.values()):
            continue
        writes += model.insert(index, number, look, action=rng.choice([DISCARD, BYPASS, PROTECT]),
                               low=rng.randrange(2), priority=rng.choice([0, 1, 1, 2, 65535]),
                               sa=rng.randrange(1024))
    return writes


async def load_shapes(model, table, shapes):
    for number, fields in shapes.items():
        await table.load(model.set_shape(number, **fields))


# Every kind of field alone and together, in both versions; longest prefixes too.
SHAPES_MIXED = [
    {0: {}, 1: {"src_bits": 2, "proto": 1}, 2: {"dst_bits": 1, "sport": 1},
     3: {"src_bits": 32, "dst_bits": 32, "proto": 1, "sport": 1, "dport": 1},
     4: {"v6": 1, "dport": 1}, 5: {"v6": 1, "src_bits": 1, "dst_bits": 1},
     6: {"v6": 1, "src_bits": 128, "dst_bits": 128, "proto": 1, "sport": 1, "dport": 1},
     7: {"v6": 1}},
    {1: {"src_bits": 31, "dst_bits": 1}, 4: {"src_bits": 1, "dst_bits": 31, "dport": 1},
     5: {"v6": 1, "src_bits": 127, "proto": 1}, 6: {"proto": 1}},
    {7: {"src_bits": 32}},
]


@cocotb.test()
@cocotb.parametrize(shapes=range(len(SHAPES_MIXED)), idle=[0.0, 0.7])
async def follows_model(dut, shapes, idle):
    """Random databases in random shapes, with every client asking: matches and misses."""
    rng = random.Random(shapes)
    sources, sinks, table = await set_up(dut, idle)
    model = Spd()
    await load_shapes(model, table, SHAPES_MIXED[shapes])
    await table.load(fill(rng, model, list(SHAPES_MIXED[shapes]), 120))
    looks = []
    for _ in range(250):
        policy = rng.choice(list(model.policies.values()))
        look = matching(rng, policy, model.shapes[policy["shape"]])
        if rng.random() < 0.3:
            look[rng.choice(["src", "dst"])] ^= 1 << rng.randrange(96, 128)
        looks.append(look)
    found = [model.look(look) for look in looks]
    assert 20 < sum(p is not None for p in found)
    assert shapes == 0 or None in found, "no look-up misses"
    await ask(dut, sources, sinks, looks, [model])


@cocotb.test()
async def smallest_priority_counts(dut):
    """Of the shapes that match, the smallest priority; of equal ones the lowest shape."""
    rng = random.Random(9)
    sources, sinks, table = await set_up(dut)
    for order in ([5, 4, 3, 2], [2, 3, 4, 5], [3, 3, 3, 3], [7, 3, 7, 3], [65535, 0, 0, 65535]):
        model = Spd()
        look = selector(rng, 0)
        numbers = [0, 2, 5, 7]
        for number, bits in zip(numbers, [0, 8, 16, 32]):
            await table.load(model.set_shape(number, src_bits=bits))
        for index, (number, priority) in enumerate(zip(numbers, order)):
            await table.load(model.insert(index, number, look, action=PROTECT, sa=index,
                                          priority=priority))
        want = min(range(4), key=lambda i: (order[i], numbers[i]))
        assert model.look(look)["sa"] == want
        await ask(dut, sources, sinks, [look] * N, [model])
        for index in range(4):
            await table.load(model.delete(index))


def colliding(rng, model, number, count):
    """`count` selectors whose policies in this shape fall into one bucket."""
    groups = {}
    while True:
        look = selector(rng, model.shapes[number]["v6"])
        group = groups.setdefault(bucket_of(masked(look, model.shapes[number]), number), [])
        group.append(look)
        if len(group) == count:
            return group


@cocotb.test()
async def collisions(dut):
    """A bucket with several policies: all are found, and each goes while the others stay."""
    rng = random.Random(5)
    sources, sinks, table = await set_up(dut)
    for v6 in (0, 1):
        model = Spd()
        await table.load(model.set_shape(3, v6=v6, src_bits=128 if v6 else 32, proto=1))
        looks = colliding(rng, model, 3, 7)
        for index, look in enumerate(looks[:6]):
            await table.load(model.insert(10 + index, 3, look, action=PROTECT, priority=index,
                                          sa=index))
        assert len(model.chains) == 1
        # First, last and middle of the chain; then the rest. The seventh was never there.
        for gone in (None, 15, 10, 12, 14, 11, 13):
            if gone is not None:
                await table.load(model.delete(gone))
            await ask(dut, sources, sinks, looks, [model])


@cocotb.test()
async def long_chains_are_cut(dut):
    """MaxChain policies of a bucket are looked at and no more, so that a ring stops nobody."""
    rng = random.Random(6)
    sources, sinks, table = await set_up(dut, 0.0)
    model = Spd()
    await table.load(model.set_shape(0, src_bits=32))
    looks = colliding(rng, model, 0, MAX_CHAIN + 2)
    for index, look in enumerate(looks[:-1]):
        await table.load(model.insert(index, 0, look, action=BYPASS, priority=1))
    first_in = looks[0]  # at the chain's end: one too far
    model.look = lambda look, rest=model.look: None if look == first_in else rest(look)
    await ask(dut, sources, sinks, looks, [model])
    # The last one of the chain points at itself.
    del model.look
    policy = dict(model.policies[1], more=1, next=1)
    await table.write(POLICIES, 1, pack(POLICY, policy))
    await ask(dut, sources, sinks, [looks[-1], looks[1]], [model])


@cocotb.test()
async def tables_keep_records(dut):
    """What was written is read back, until reset marks all of it empty."""
    rng = random.Random(7)
    _, _, table = await set_up(dut)
    sizes = {BUCKETS: (2048, width(POLICY_BUCKET)), POLICIES: (1024, width(POLICY)),
             SHAPE_TABLE: (8, width(SHAPE))}
    written = {}
    for name, (places, bits) in sizes.items():
        for index in {0, places - 1, *(rng.randrange(places) for _ in range(20))}:
            written[name, index] = rng.getrandbits(bits)
            await table.write(name, index, written[name, index])
    for (name, index), want in written.items():
        assert await table.read(name, index) == want
    dut.rst_ni.value = 0
    for _ in range(3):
        await FallingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    for name, index in written:
        assert await table.read(name, index) == 0


@cocotb.test()
async def changes_while_asked(dut):
    """While policies come and go, an answer is the one before or the one after; policies that stay
    are found throughout, also those of the same chain."""
    rng = random.Random(8)
    sources, sinks, table = await set_up(dut, 0.0)
    model = Spd()
    await table.load(model.set_shape(0, src_bits=32))
    await table.load(model.set_shape(1))
    chain = colliding(rng, model, 0, 5)
    await table.load(model.insert(100, 1, chain[0], action=DISCARD, priority=9))
    for index, look in enumerate(chain):
        await table.load(model.insert(index, 0, look, action=PROTECT, priority=1, sa=index))
    stays, goes = (0, 2, 4), (1, 3)
    looks = [[chain[rng.randrange(5)] for _ in range(150)] for _ in range(N)]
    for source, lane in zip(sources, looks):
        for look in lane:
            source.put(pack(SELECTOR, look))
    done = lambda: all(len(s.items) == len(l) for s, l in zip(sinks, looks))
    changes = 0
    while not done():
        for index in goes:
            await table.load(model.delete(index))
            await table.load(model.insert(index, 0, chain[index], action=PROTECT, priority=1,
                                          sa=index))
            changes += 1
    assert changes > 50
    for lane, sink in zip(looks, sinks):
        for look, answer in zip(lane, sink.items, strict=True):
            got, index = unpack(POLICY, answer), chain.index(look)
            allowed = {(0, index)} if index in stays else {(0, index), (1, 0)}
            assert got["valid"] and (got["shape"], got["sa"]) in allowed


def cycles(v6, shapes, chain=1):
    """Cycles of a look-up, as the module's header says."""
    return 2 + shapes * (6 + -(-(39 if v6 else 15) // HASH_BYTES) + 5 * chain)


@cocotb.test()
async def latency(dut):
    """The stated cycles from look to found, by version, shapes and place in the chain."""
    rng = random.Random(11)
    sources, sinks, table = await set_up(dut, 0.0)

    async def takes(look):
        source, sink = sources[0], sinks[0]
        sink.times.clear(), source.taken.clear()
        source.put(pack(SELECTOR, look))
        await wait_for(dut.clk_i, lambda: sink.times)
        return sink.times[0] - source.taken[0]

    for v6 in (0, 1):
        for shapes in (0, 1, 2, 4):
            model = Spd()
            look = selector(rng, v6)
            for number in range(8):
                valid = int(number < shapes)
                await table.load(model.set_shape(number, valid=valid, v6=v6, src_bits=number))
            for number in range(shapes):
                await table.load(model.insert(number, number, look, action=BYPASS, priority=1))
            assert all(len(c) == 1 for c in model.chains.values())
            assert await takes(look) == cycles(v6, shapes), (v6, shapes)
            for number in range(shapes):
                await table.load(model.delete(number))
    model = Spd()
    await table.load(model.set_shape(0, src_bits=32))
    looks = colliding(rng, model, 0, 3)
    for index, look in enumerate(looks):
        await table.load(model.insert(index, 0, look, action=BYPASS, priority=1))
    for index, look in enumerate(looks):
        assert await takes(look) == cycles(0, 1, 3 - index)


@cocotb.test()
async def rate(dut):
    """IPv4 with two shapes: when every client asks all the time, none takes more than N cycles longer
    than alone, and that is 60 at most."""
    rng = random.Random(12)
    sources, sinks, table = await set_up(dut, 0.0)
    model = Spd()
    await table.load(model.set_shape(0, src_bits=32, dst_bits=32))
    await table.load(model.set_shape(1, dst_bits=8, proto=1))
    looks = [selector(rng, 0) for _ in range(N)]
    for number, look in enumerate(looks):
        await table.load(model.insert(number, 0, look, action=PROTECT, priority=1))
        if model.look(look | {"src": 0}) is None:
            await table.load(model.insert(100 + number, 1, look, action=BYPASS, priority=2))
    for source, look in zip(sources, looks):
        for _ in range(40):
            source.put(pack(SELECTOR, look))
    await wait_for(dut.clk_i, lambda: all(len(s.items) == 40 for s in sinks))
    for sink in sinks:
        took = (sink.times[-1] - sink.times[0]) / 39
        dut._log.info("%.1f cycles a look-up", took)
        assert took <= min(cycles(0, 2) + 1 + N, 60)
