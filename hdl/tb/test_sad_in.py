"""Bench for the inbound SAD: finding SAs, the anti-replay window, with several clients at several
ratios of the two clocks."""

import os
import random

import cocotb
from records import (ACCEPT, COUNT, EVENT_HARD, EVENT_SOFT, FIND, SA, SA_BUCKET, SEND, STATE, WINDOW,
                     Drop, pack, width)
from sad_bench import N, RATIOS, Bench
from sad_model import BUCKETS, SAS, STATES, Sad, Window, bucket_of, random_sa
from stream import wait_for

HASH_BYTES = int(os.environ["CV_HashBytes"])


def finding(sa, **fields):
    """The fields of a request that find an SA."""
    return {"op": FIND, "v6": sa["v6"], "spi": sa["spi"], "dst": sa["dst"]} | fields


def accepting(index, sa, number, size=1):
    return {"op": ACCEPT, "sa": index, "spi": sa["spi"], "high": number >> 32,
            "seq": number & 0xFFFFFFFF, "bytes": size}


def counting(index, sa, size):
    return {"op": COUNT, "sa": index, "spi": sa["spi"], "bytes": size}


def like(rng, sa, **fields):
    """An SA that differs from another one in little."""
    return random_sa(rng, **{n: sa[n] for n in ("v6", "spi", "dst")} | fields)


@cocotb.test()
@cocotb.parametrize(ratio=RATIOS)
async def finds_follow_model(dut, ratio):
    """SAs of both versions, such as differ in one of address, SPI and version, and absent ones."""
    rng = random.Random(1)
    bench = await Bench(dut, ratio).start()
    model = Sad()
    for number, index in enumerate(rng.sample(range(1024), 60)):
        sa = random_sa(rng)
        if number % 4:
            other = rng.choice(list(model.sas.values()))
            sa = like(rng, other, **rng.choice([
                {"spi": other["spi"] ^ 1 << rng.randrange(32)},
                {"dst": other["dst"] ^ 1 << rng.randrange(96, 128)},
                {"v6": 1 - other["v6"], "dst": other["dst"] >> 96 << 96}]))
        if model.find(sa["v6"], sa["spi"], sa["dst"]) is None:
            await bench.table.load(model.insert(index, sa))
    asked = []
    for _ in range(240):
        request = finding(rng.choice(list(model.sas.values())), seq=5)
        if rng.random() < 0.3:
            request["spi"] ^= 1 << rng.randrange(32)
        elif rng.random() < 0.2:
            request["dst"] ^= 1 << rng.randrange(96, 128)
        asked.append(request)
    for number, request in enumerate(asked):
        bench.put(number % N, **request)
    answers = await bench.finish()
    hits = 0
    for number, request in enumerate(asked):
        got = answers[number % N][number // N]
        want = model.find(request["v6"], request["spi"], request["dst"])
        if want is None:
            assert got["drop"] == Drop.NO_SA
            continue
        hits += 1
        assert (got["drop"], got["sa"], got["number"]) == (Drop.NONE, want, 5)
        sa = model.sas[want]
        assert all(got["data"][name] == sa[name] for name in sa if name != "limits")
    assert 60 < hits < 220


def colliding(rng, count):
    groups = {}
    while True:
        sa = random_sa(rng)
        group = groups.setdefault(bucket_of(sa), [])
        group.append(sa)
        if len(group) == count:
            return group


@cocotb.test()
async def collisions(dut):
    """SAs of one bucket: all are found, and each goes while the others stay."""
    rng = random.Random(2)
    bench = await Bench(dut).start()
    model = Sad()
    group = colliding(rng, 6)
    for index, sa in enumerate(group[:5]):
        await bench.table.load(model.insert(20 + index, sa))
    assert len(model.chains) == 1
    for gone in (None, 24, 20, 22, 21, 23):
        if gone is not None:
            await bench.table.load(model.delete(gone))
        for client in range(N):
            for sa in group:
                bench.put(client, **finding(sa, seq=1))
        for answers in await bench.finish():
            for sa, got in zip(group, answers, strict=True):
                want = model.find(sa["v6"], sa["spi"], sa["dst"])
                assert got["drop"] == (Drop.NO_SA if want is None else Drop.NONE)
                assert want is None or got["sa"] == want


@cocotb.test()
async def ring_ends(dut):
    """A chain that leads back into itself ends a search without an SA."""
    rng = random.Random(3)
    bench = await Bench(dut, idle=0.0, stall=0.0).start()
    here, other = colliding(rng, 2)
    await bench.table.load([
        (STATES, 7, 0), (SAS, 7, pack(SA, here | {"more": 1, "next": 7})),
        (BUCKETS, bucket_of(here), pack(SA_BUCKET, {"valid": 1, "first": 7}))])
    assert (await bench.ask(**finding(other)))["drop"] == Drop.NO_SA
    assert (await bench.ask(**finding(here, seq=1)))["drop"] == Drop.NONE


BEGINS = [0, WINDOW - 2, 0xFFFFFFFF - WINDOW, 0x1_0000_0005, 0x1_FFFF_FFF0, 0xFFFFFFFF_FFFFFF00]


@cocotb.test()
@cocotb.parametrize(esn=[0, 1], begin=BEGINS)
async def window_follows_model(dut, esn, begin):
    """Find and accept against a receiver that keeps every number: across wraps of the lower half,
    with repeats, late packets and such as are not authentic."""
    rng = random.Random(begin ^ esn)
    bench = await Bench(dut, idle=0.0, stall=0.0).start()
    begin = begin if esn else begin & 0xFFFFFFFF
    sa, model, sad = random_sa(rng, esn=esn), Window(esn, begin), Sad()
    await bench.table.load(sad.insert(77, sa))
    await bench.table.write(STATES, 77, pack(STATE, {"top": begin, "seen": model.seen()}))
    carried = 0
    for _ in range(120):
        step = rng.choice([1, 1, 2, -1, 0, rng.randint(-2 * WINDOW, 2 * WINDOW),
                           rng.randint(-WINDOW, -1)])
        if not esn and model.top + step < 0:
            step = -step  # else the window is at its end at once
        low = (model.top + step) & 0xFFFFFFFF
        number = model.number(low)
        want = model.check(number)
        got = await bench.ask(rng.randrange(N), **finding(sa, seq=low))
        assert got["drop"] == want, (hex(model.top), hex(low))
        if want == Drop.NONE:
            assert got["number"] == number
            if rng.random() < 0.2:
                continue  # the ICV is wrong: it is never accepted
        if 0 < number < 1 << 64:
            got = await bench.ask(rng.randrange(N), **accepting(77, sa, number, 3))
            assert got["drop"] == want and got["number"] == number
        if want == Drop.NONE:
            model.accept(number)
            carried += 1
        state = await bench.state(77)
        assert (state["top"], state["seen"]) == (model.top, model.seen())
        assert (state["packets"], state["bytes"]) == (carried, 3 * carried)
    assert carried > 15


@cocotb.test()
@cocotb.parametrize(ratio=RATIOS, idle=[0.0, 0.4])
async def accepted_once(dut, ratio, idle):
    """Every client has every packet: each number is accepted once, by whomever."""
    rng = random.Random(4)
    bench = await Bench(dut, ratio, idle, idle).start()
    sas = {1: random_sa(rng, esn=0), 2: random_sa(rng, esn=1)}
    sad = Sad()
    begin = {1: 0, 2: (3 << 32) - 50}
    for index, sa in sas.items():
        await bench.table.load(sad.insert(index, sa))
        await bench.table.write(STATES, index, pack(STATE, {"top": begin[index], "seen": 1}))
    # Fewer numbers than the window has, so that none can come late.
    packets = [(index, begin[index] + n) for index in sas for n in range(1, WINDOW - 20)]
    lanes = [rng.sample(packets, len(packets)) for _ in range(N)]
    # At the beginning all have the same ones at the same time.
    lanes = [packets[:30] + [p for p in lane if p not in packets[:30]] for lane in lanes]
    for client, lane in enumerate(lanes):
        for index, number in lane:
            bench.put(client, **accepting(index, sas[index], number, 100))
    answers = await bench.finish()
    count = {}
    for lane, answer in zip(lanes, answers):
        for packet, got in zip(lane, answer, strict=True):
            assert got["drop"] in (Drop.NONE, Drop.REPLAY)
            count[packet] = count.get(packet, 0) + (got["drop"] == Drop.NONE)
    assert set(count.values()) == {1} and len(count) == len(packets)
    for index in sas:
        state = await bench.state(index)
        own = WINDOW - 21
        assert (state["top"], state["packets"], state["bytes"]) == \
            (begin[index] + own, own, own * 100)
        assert state["seen"] == (1 << own + (begin[index] > 0 or 1)) - 1


@cocotb.test()
async def window_moves_between(dut):
    """What SadFind found new can be late or another upper half's when it is accepted."""
    rng = random.Random(5)
    bench = await Bench(dut).start()
    sa, sad = random_sa(rng, esn=1), Sad()
    await bench.table.load(sad.insert(3, sa))
    assert (await bench.ask(**finding(sa, seq=10)))["number"] == 10
    assert (await bench.ask(**accepting(3, sa, 10 + WINDOW)))["drop"] == Drop.NONE
    assert (await bench.ask(**accepting(3, sa, 10)))["drop"] == Drop.REPLAY_LATE
    assert (await bench.ask(**accepting(3, sa, 11)))["drop"] == Drop.NONE
    # Half a span ahead: 20 now is 2^32 + 20.
    assert (await bench.ask(**accepting(3, sa, (1 << 32) - 5)))["drop"] == Drop.NONE
    before = await bench.state(3)
    assert (await bench.ask(**accepting(3, sa, 20)))["drop"] == Drop.REPLAY_LATE
    assert await bench.state(3) == before
    assert (await bench.ask(**finding(sa, seq=20)))["number"] == (1 << 32) + 20


@cocotb.test()
async def lifetimes(dut):
    """Only authentic packets count; behind the hard limit neither operation passes; events once."""
    rng = random.Random(6)
    bench = await Bench(dut).start()
    sa = random_sa(rng, limits={"soft_packets": 3, "hard_bytes": 500})
    sad = Sad()
    await bench.table.load(sad.insert(8, sa))
    for number in range(1, 20):
        assert (await bench.ask(**finding(sa, seq=number)))["drop"] == Drop.NONE
    assert (await bench.state(8))["packets"] == 0
    for number in range(1, 9):
        want = Drop.NONE if number <= 5 else Drop.HARD_LIMIT
        assert (await bench.ask(**finding(sa, seq=number)))["drop"] == want
        assert (await bench.ask(**accepting(8, sa, number, 100)))["drop"] == want
    assert await bench.events() == [(EVENT_SOFT, 8), (EVENT_HARD, 8)]
    state = await bench.state(8)
    assert (state["packets"], state["bytes"], state["top"]) == (5, 500, 5)


@cocotb.test()
async def bytes_come_later(dut):
    """What is counted behind the cipher counts bytes alone, also when a limit is reached; nothing of
    an SA that another one has replaced."""
    rng = random.Random(11)
    bench = await Bench(dut).start()
    sa, other, sad = random_sa(rng, limits={"soft_bytes": 201, "hard_bytes": 400}), random_sa(rng), Sad()
    await bench.table.load(sad.insert(8, sa))
    for number in range(1, 8):
        assert (await bench.ask(**accepting(8, sa, number, 0)))["drop"] == Drop.NONE
    events = [(EVENT_SOFT, 8), (EVENT_HARD, 8)]
    for told in (0, 0, 1, 2, 2):
        assert (await bench.ask(**counting(8, sa, 100)))["drop"] == Drop.NONE
        assert await bench.events() == events[:told]
    before = await bench.state(8)
    assert (before["packets"], before["bytes"], before["top"]) == (7, 500, 7)
    assert (await bench.ask(**accepting(8, sa, 8, 0)))["drop"] == Drop.HARD_LIMIT
    assert (await bench.ask(**counting(8, other, 100)))["drop"] == Drop.NO_SA
    assert await bench.state(8) == before


@cocotb.test()
async def what_is_not_there(dut):
    """Accepting for an SA that is gone or has become another one; the other direction's operation."""
    rng = random.Random(7)
    bench = await Bench(dut).start()
    sa, other, sad = random_sa(rng), random_sa(rng), Sad()
    assert (await bench.ask(**accepting(4, sa, 1)))["drop"] == Drop.NO_SA
    await bench.table.load(sad.insert(4, sa))
    assert (await bench.ask(**accepting(4, sa, 1)))["drop"] == Drop.NONE
    await bench.table.load(sad.delete(4) + sad.insert(4, other))
    assert (await bench.ask(**accepting(4, sa, 2)))["drop"] == Drop.NO_SA
    assert (await bench.ask(**finding(sa, seq=2)))["drop"] == Drop.NO_SA
    assert (await bench.ask(**accepting(4, other, 2)))["drop"] == Drop.NONE
    assert (await bench.ask(op=SEND, sa=4))["drop"] == Drop.UNSUPPORTED


@cocotb.test()
@cocotb.parametrize(ratio=[(10, 10), (10, 4), (10, 26)])
async def tables_while_packets_run(dut, ratio):
    """SAs of the same bucket come and go while one that stays is looked for and accepts."""
    rng = random.Random(8)
    bench = await Bench(dut, ratio, 0.0, 0.0).start()
    group, sad = colliding(rng, 4), Sad()
    for index in (1, 2, 3, 0):
        await bench.table.load(sad.insert(index, group[index]))
    stays = group[2]
    for client in range(N):
        for number in range(100):
            bench.put(client, **finding(stays, seq=1 + number))
            bench.put(client, **accepting(2, stays, 1 + number))
    changes = 0
    while any(s.queue for s in bench.sources):
        index = rng.choice((0, 1, 3))
        await bench.table.load(sad.delete(index) + sad.insert(index, group[index]))
        changes += 1
    assert changes >= 10
    passed = []
    for answers in await bench.finish():
        for number, got in enumerate(answers):
            assert got["drop"] in (Drop.NONE, Drop.REPLAY, Drop.REPLAY_LATE)
            if number % 2 and got["drop"] == Drop.NONE:
                passed.append(got["number"])
    assert len(passed) == len(set(passed)) and len(passed) > 90


@cocotb.test()
async def nothing_is_accepted_on_a_state_that_was_not_restored(dut):
    """After reset an SA whose record and bucket are there finds, accepts and counts nothing until its
    state was written; then its window is the one that was written."""
    bench = await Bench(dut).start()
    sa, sad = random_sa(random.Random(11), esn=0), Sad()
    await bench.table.load(sad.insert(9, sa))
    assert (await bench.ask(**finding(sa, seq=5)))["drop"] == Drop.NONE
    assert (await bench.ask(**accepting(9, sa, 5)))["drop"] == Drop.NONE
    await bench.reset()
    await bench.table.load(Sad().insert(9, sa)[1:])
    for request in (finding(sa, seq=5), accepting(9, sa, 5), counting(9, sa, 100)):
        assert (await bench.ask(**request))["drop"] == Drop.NO_SA
    assert not any((await bench.state(9)).values())
    await bench.table.write(STATES, 9, pack(STATE, {"top": 5, "seen": 1}))
    assert (await bench.ask(**finding(sa, seq=5)))["drop"] == Drop.REPLAY
    assert (await bench.ask(**accepting(9, sa, 6)))["drop"] == Drop.NONE


@cocotb.test()
async def tables_keep_records(dut):
    """What was written is read back."""
    rng = random.Random(9)
    bench = await Bench(dut).start()
    sizes = {SAS: (1024, width(SA)), STATES: (1024, width(STATE)),
             BUCKETS: (2048, width(SA_BUCKET))}
    written = {}
    for name, (places, bits) in sizes.items():
        for index in {0, places - 1, *(rng.randrange(places) for _ in range(15))}:
            written[name, index] = rng.getrandbits(bits)
            await bench.table.write(name, index, written[name, index])
    for (name, index), want in written.items():
        assert await bench.table.read(name, index) == want


@cocotb.test()
async def latency(dut):
    """The stated cycles with clocks alike: SadAccept 11, SadFind by version and place in its
    bucket."""
    rng = random.Random(10)
    bench = await Bench(dut, (10, 10), 0.0, 0.0).start()

    async def takes(**request):
        source, sink = bench.sources[0], bench.sinks[0]
        bench.put(0, **request)
        await wait_for(dut.clk_i, lambda: sink.times)
        cycles = sink.times[0] - source.taken[0]
        await bench.finish()
        return cycles

    sad = Sad()
    for v6 in (0, 1):
        group = [s for s in colliding(rng, 8)]
        while sum(s["v6"] == v6 for s in group) < 3:
            group = colliding(rng, 8)
        group = [s for s in group if s["v6"] == v6][:3]
        for index, sa in enumerate(group):
            await bench.table.load(sad.insert(10 * v6 + index, sa))
        hashing = -(-(20 if v6 else 8) // HASH_BYTES)
        for index, sa in enumerate(group):
            assert await takes(**finding(sa, seq=1)) == 15 + hashing + 5 * (2 - index)
        assert await takes(**accepting(10 * v6, group[0], 1)) == 11
