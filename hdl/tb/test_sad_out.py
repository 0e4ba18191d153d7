"""Bench for the outbound SAD: sequence numbers, lifetimes and events, with several clients at
several ratios of the two clocks."""

import random

import cocotb
from cocotb.triggers import FallingEdge
from cocotb.utils import get_sim_time
from records import (EVENT_HARD, EVENT_NUMBERS, EVENT_SOFT, SA, SEND, FIND, STATE, Drop, pack,
                     width)
from sad_bench import N, RATIOS, Bench
from sad_model import SAS, STATES, random_sa
from stream import wait_for


async def install(bench, index, sa, **state):
    await bench.table.load([(STATES, index, pack(STATE, state)), (SAS, index, pack(SA, sa))])


@cocotb.test()
@cocotb.parametrize(ratio=RATIOS, idle=[0.0, 0.5])
async def numbers_without_gap(dut, ratio, idle):
    """Clients that share SAs get each number once and none is left out, with its IV, which is the
    number under the salt of the SA's state; what is counted is exact: all of a packet in tunnel
    mode, its payload in transport mode."""
    rng = random.Random(1)
    bench = await Bench(dut, ratio, idle, idle).start()
    sas = {index: random_sa(rng, esn=esn, tunnel=tunnel)
           for index, esn, tunnel in ((0, 0, 0), (7, 1, 1), (1023, 1, 0))}
    begin = {0: 0, 7: (5 << 32) - 20, 1023: 1 << 40}
    seen = {index: rng.getrandbits(128) for index in sas}
    for index, sa in sas.items():
        await install(bench, index, sa, top=begin[index], seen=seen[index], bytes=5, packets=6)
    asked = [[(rng.choice([0, 0, 7, 1023]), rng.randrange(1, 9217)) for _ in range(60)]
             for _ in range(N)]
    for client, packets in enumerate(asked):
        for sa, size in packets:
            bench.put(client, op=SEND, sa=sa, bytes=size, payload=size // 2)
    answers = await bench.finish()
    numbers, volume = {index: [] for index in sas}, {index: 5 for index in sas}
    for packets, answer in zip(asked, answers):
        last = dict.fromkeys(sas, 0)
        for (sa, size), got in zip(packets, answer, strict=True):
            assert got["drop"] == Drop.NONE and got["sa"] == sa
            assert got["data"] == sas[sa] | {
                "more": 0, "next": 0, "limits": dict.fromkeys(got["data"]["limits"], 0)}
            assert got["number"] > last[sa], "a client's numbers rise"
            assert got["iv"] == got["number"] ^ seen[sa] & (1 << 64) - 1
            last[sa] = got["number"]
            numbers[sa].append(got["number"])
            volume[sa] += size if sas[sa]["tunnel"] else size // 2
    for index, got in numbers.items():
        assert sorted(got) == list(range(begin[index] + 1, begin[index] + 1 + len(got)))
        state = await bench.state(index)
        assert state == {"top": begin[index] + len(got), "seen": seen[index],
                         "bytes": volume[index], "packets": 6 + len(got), "soft_told": 0,
                         "hard_told": 0}
    assert not await bench.events()


@cocotb.test()
@cocotb.parametrize(esn=[0, 1])
async def numbers_run_out(dut, esn):
    """The last number is used, none follows it, and that is told once. With ESN the lower half
    wraps on the way."""
    rng = random.Random(2)
    bench = await Bench(dut).start()
    last = (1 << 64) - 1 if esn else (1 << 32) - 1
    await install(bench, 3, random_sa(rng, esn=esn), top=last - 5)
    for _ in range(4):
        for client in range(N):
            bench.put(client, op=SEND, sa=3, bytes=10)
    answers = [a for client in await bench.finish() for a in client]
    good = [a["number"] for a in answers if a["drop"] == Drop.NONE]
    assert sorted(good) == list(range(last - 4, last + 1))
    assert all(a["drop"] in (Drop.NONE, Drop.NUMBERS) for a in answers)
    state = await bench.state(3)
    assert (state["top"], state["packets"], state["bytes"]) == (last, 5, 50)
    assert await bench.events() == [(EVENT_NUMBERS, 3)]
    # Where the lower half wraps: without ESN that is the end, with it the upper half grows.
    await install(bench, 4, random_sa(rng, esn=esn), top=0xFFFFFFFE)
    answers = [await bench.ask(op=SEND, sa=4, bytes=1) for _ in range(3)]
    assert answers[0]["number"] == 0xFFFFFFFF and answers[0]["drop"] == Drop.NONE
    assert [a["drop"] for a in answers[1:]] == [Drop.NONE if esn else Drop.NUMBERS] * 2
    if esn:
        assert [a["number"] for a in answers[1:]] == [1 << 32, (1 << 32) + 1]


LIMITS = [
    # limits, size of a packet, packets until soft and until hard
    ({"soft_packets": 7, "hard_packets": 11}, 100, 7, 11),
    ({"soft_bytes": 700, "hard_bytes": 1100}, 100, 7, 11),
    ({"soft_bytes": 601, "hard_bytes": 1099}, 100, 7, 11),
    ({"soft_packets": 7, "hard_bytes": 1001, "hard_packets": 400}, 100, 7, 11),
    ({"hard_packets": 1}, 64, None, 1),
    ({"soft_packets": 3}, 64, 3, None),
    ({"soft_packets": 4, "hard_packets": 4}, 64, None, 4),
]


@cocotb.test()
@cocotb.parametrize(case=range(len(LIMITS)))
async def limits_are_exact(dut, case):
    """A limit's event comes with the packet that reaches it, once; the hard limit's packet still
    passes and no other."""
    limits, size, soft, hard = LIMITS[case]
    bench = await Bench(dut, idle=0.0, stall=0.0, event_stall=0.0).start()
    await install(bench, 9, random_sa(random.Random(case), limits=limits))
    want = []
    for packet in range(1, 16):
        answer = await bench.ask(packet % N, op=SEND, sa=9, bytes=size)
        refused = hard is not None and packet > hard
        assert answer["drop"] == (Drop.HARD_LIMIT if refused else Drop.NONE)
        if packet == soft:
            want.append((EVENT_SOFT, 9))
        if packet == hard:
            want.append((EVENT_HARD, 9))
        assert await bench.events() == want, f"packet {packet}"
    state = await bench.state(9)
    carried = min(hard or 15, 15)
    assert (state["packets"], state["bytes"], state["top"]) == (carried, carried * size, carried)


@cocotb.test()
@cocotb.parametrize(ratio=RATIOS)
async def limits_with_all_clients(dut, ratio):
    """However the clients' packets meet, exactly as many pass as the limit says, and each event
    comes once."""
    bench = await Bench(dut, ratio, 0.1, 0.1).start()
    rng = random.Random(4)
    limits = {10: {"soft_packets": 20, "hard_packets": 50}, 11: {"hard_bytes": 50 * 64}}
    for index, limit in limits.items():
        await install(bench, index, random_sa(rng, limits=limit))
    for client in range(N):
        for packet in range(160 // N):
            bench.put(client, op=SEND, sa=10 + packet % 2, bytes=64)
    answers = [a for client in await bench.finish() for a in client]
    for index in limits:
        drops = [a["drop"] for a in answers if a["sa"] == index]
        assert drops.count(Drop.NONE) == 50 and drops.count(Drop.HARD_LIMIT) == len(drops) - 50
        assert sorted(a["number"] for a in answers
                      if a["sa"] == index and a["drop"] == Drop.NONE) == list(range(1, 51))
    assert sorted(await bench.events()) == [(EVENT_SOFT, 10), (EVENT_HARD, 10), (EVENT_HARD, 11)]


@cocotb.test()
async def what_is_not_there(dut):
    """An SA that was never written or was taken away, and operations of the other direction."""
    bench = await Bench(dut).start()
    assert (await bench.ask(op=SEND, sa=5))["drop"] == Drop.NO_SA
    await install(bench, 5, random_sa(random.Random(1)))
    assert (await bench.ask(op=SEND, sa=5))["drop"] == Drop.NONE
    await bench.table.write(SAS, 5, pack(SA, random_sa(random.Random(1), valid=0)))
    assert (await bench.ask(op=SEND, sa=5))["drop"] == Drop.NO_SA
    assert (await bench.state(5))["packets"] == 1, "the state is left alone"
    assert (await bench.ask(op=FIND, sa=5))["drop"] == Drop.UNSUPPORTED


@cocotb.test()
async def nothing_is_sent_on_a_state_that_was_not_restored(dut):
    """After reset an SA sends nothing until its state was written, though its record is there, and its
    neighbour sends; what is refused takes no number and tells nobody."""
    rng = random.Random(8)
    bench = await Bench(dut).start()
    sas = {index: random_sa(rng, limits={"soft_packets": 1}) for index in (5, 6)}
    await install(bench, 5, sas[5], top=700)
    assert (await bench.ask(op=SEND, sa=5, bytes=1))["number"] == 701
    assert await bench.events() == [(EVENT_SOFT, 5)]
    await bench.reset()
    for index, sa in sas.items():
        await bench.table.write(SAS, index, pack(SA, sa))
    for client in range(N):
        for index in sas:
            bench.put(client, op=SEND, sa=index, bytes=1)
    answers = [a for client in await bench.finish() for a in client]
    assert {a["drop"] for a in answers} == {Drop.NO_SA} and len(answers) == 2 * N
    assert not any((await bench.state(5)).values())
    assert await bench.events() == [(EVENT_SOFT, 5)], "no event but the first"
    await bench.table.write(STATES, 5, pack(STATE, {"top": 701}))
    assert (await bench.ask(op=SEND, sa=5, bytes=1))["number"] == 702
    assert (await bench.ask(op=SEND, sa=6, bytes=1))["drop"] == Drop.NO_SA
    assert await bench.events() == [(EVENT_SOFT, 5)] * 2


@cocotb.test()
async def counts_do_not_wrap(dut):
    """A volume stays at its largest value."""
    bench = await Bench(dut).start()
    top = (1 << 48) - 1
    await install(bench, 1, random_sa(random.Random(1)), bytes=top - 10, packets=top - 1)
    for _ in range(3):
        assert (await bench.ask(op=SEND, sa=1, bytes=9))["drop"] == Drop.NONE
    state = await bench.state(1)
    assert (state["bytes"], state["packets"], state["top"]) == (top, top, 3)


@cocotb.test()
@cocotb.parametrize(ratio=[(10, 10), (10, 26)])
async def events_are_not_lost(dut, ratio):
    """When nobody takes events, 32 are kept, the rest is reported as missed and comes later."""
    bench = await Bench(dut, ratio, 0.0, 0.0, event_stall=1.0).start()
    rng = random.Random(3)
    for index in range(40):
        await install(bench, index, random_sa(rng, limits={"soft_packets": 1}))
    for index in range(32):
        await bench.ask(op=SEND, sa=index)
    assert not int(dut.event_missed_o.value)
    for index in range(32, 40):
        await bench.ask(op=SEND, sa=index)
    await wait_for(dut.clk_i, lambda: int(dut.event_missed_o.value), 100)
    assert [(await bench.state(i))["soft_told"] for i in (0, 31, 32, 39)] == [1, 1, 0, 0]
    bench.event_sink.stall = 0.2
    await wait_for(dut.clk_i, lambda: len(bench.event_sink.items) == 32, 1000)
    assert await bench.events() == [(EVENT_SOFT, i) for i in range(32)]
    assert int(dut.event_missed_o.value)
    await FallingEdge(dut.clk_i)
    dut.event_clear_i.value = 1
    await FallingEdge(dut.clk_i)
    dut.event_clear_i.value = 0
    for index in range(40):
        await bench.ask(op=SEND, sa=index)
    assert await bench.events() == [(EVENT_SOFT, i) for i in range(40)]
    assert not int(dut.event_missed_o.value)


@cocotb.test()
@cocotb.parametrize(ratio=RATIOS)
async def tables_while_packets_run(dut, ratio):
    """Software reads and writes records while every client sends: a packet sees a state before or
    after a write, never between; other SAs' records do not disturb."""
    rng = random.Random(6)
    bench = await Bench(dut, ratio, 0.0, 0.0).start()
    await install(bench, 0, random_sa(rng))
    for client in range(N):
        for _ in range(500 // N):
            bench.put(client, op=SEND, sa=0, bytes=1)
    tops, records = [], {}
    while len(bench.sinks[0].items) < 60 // N:
        index = rng.randrange(1, 1024)
        records[index] = rng.getrandbits(width(SA))
        await bench.table.write(SAS, index, records[index])
        tops.append((await bench.state(0))["top"])
    jump = pack(STATE, {"top": 1 << 20, "packets": 1, "bytes": 1})
    await bench.table.write(STATES, 0, jump)
    for index, record in records.items():
        assert await bench.table.read(SAS, index) == record
    answers = [a["number"] for client in await bench.finish() for a in client]
    assert tops == sorted(tops) and len(set(tops)) > 1
    low = sorted(n for n in answers if n <= 1 << 20)
    high = sorted(n for n in answers if n > 1 << 20)
    assert low == list(range(1, len(low) + 1)) and low
    assert high == list(range((1 << 20) + 1, (1 << 20) + 1 + len(high))) and high
    state = await bench.state(0)
    assert state["packets"] == state["bytes"] == 1 + len(high)


@cocotb.test()
async def latency(dut):
    """11 cycles from request to response where the clocks are alike."""
    bench = await Bench(dut, (10, 10), 0.0, 0.0).start()
    await install(bench, 0, random_sa(random.Random(1)))
    for _ in range(3):
        bench.put(0, op=SEND, sa=0)
        source, sink = bench.sources[0], bench.sinks[0]
        await wait_for(dut.clk_i, lambda: sink.times)
        assert sink.times[0] - source.taken[0] == 11
        await bench.finish()


@cocotb.test()
@cocotb.parametrize(one=[True, False])
async def rate(dut, one):
    """With enough clients: one packet in 4 SAD cycles of the same SA, one a cycle of different
    ones, or one in 8 of each client if that is less."""
    slow = 40
    bench = await Bench(dut, (4, slow), 0.0, 0.0).start()
    for index in range(N):
        await install(bench, index, random_sa(random.Random(index)))
    count = 60
    for client in range(N):
        for _ in range(count):
            bench.put(client, op=SEND, sa=0 if one else client, bytes=1)
    await wait_for(dut.clk_i, lambda: all(len(s.items) >= 10 for s in bench.sinks))
    begin, done = get_sim_time("ns"), sum(len(s.items) for s in bench.sinks)
    await wait_for(dut.clk_i, lambda: any(len(s.items) >= count - 5 for s in bench.sinks), 200000)
    cycles = (get_sim_time("ns") - begin) / slow
    each = cycles / (sum(len(s.items) for s in bench.sinks) - done)
    dut._log.info("%.2f SAD cycles a packet", each)
    bound = max(4 if one else 1, 8 / N)
    assert bound * 0.95 <= each <= bound * 1.05
