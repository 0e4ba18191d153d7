"""Bench for the packet switch (2 inputs, 3 outputs of types 0, 0, 1), against the contract:

every packet leaves exactly once, whole, at an output of its type; at each output the packets of one
input and class keep their order; both classes move under load; modules of a type share the work.
"""

import beat
import cocotb
from cocotb.triggers import FallingEdge
from lanes import Lanes, watch
from stream import Sink, Source, start, wait_for

NUM_IN, NUM_OUT = 2, 3
OUT_TYPE = [0, 0, 1]
BEAT_BITS, HDR_BITS = 133, 16


def set_up(dut, idle, stall):
    valid = Lanes(dut.in_valid_i, 1, NUM_IN)
    data = Lanes(dut.in_beat_i, BEAT_BITS, NUM_IN)
    hdr = Lanes(dut.in_hdr_i, HDR_BITS, NUM_IN)
    typ = Lanes(dut.in_type_i, 1, NUM_IN)
    low = Lanes(dut.in_low_i, 1, NUM_IN)
    sources = []
    for i in range(NUM_IN):
        sources.append(Source(
            dut.clk_i, valid.lane(i), watch(dut.in_ready_o, 1, i),
            {"beat": data.lane(i), "hdr": hdr.lane(i), "typ": typ.lane(i), "low": low.lane(i)},
            idle, seed=i))
    out_ready = Lanes(dut.out_ready_i, 1, NUM_OUT)
    sinks = []
    for o in range(NUM_OUT):
        sinks.append(Sink(
            dut.clk_i, watch(dut.out_valid_o, 1, o), out_ready.lane(o),
            {"beat": watch(dut.out_beat_o, BEAT_BITS, o),
             "hdr": watch(dut.out_hdr_o, HDR_BITS, o)}, stall, seed=10 + o))
    return sources, sinks


def put(source, index, number, typ, low, size):
    """One packet; its header names the input, class, type and number, its bytes follow from that."""
    header = index << 15 | low << 14 | typ << 13 | number
    packet = source.random.randbytes(size)
    for value in beat.beats(packet):
        source.put({"beat": value, "hdr": header, "typ": typ, "low": low})
    return header, packet


def received(sink):
    """(header, packet, cycle of the first beat) of each whole packet of a sink."""
    out, current, begin = [], [], None
    for item, time in zip(sink.items, sink.times):
        begin = time if not current else begin
        current.append(item)
        if item["beat"] & 1:
            assert len({i["hdr"] for i in current}) == 1, "the header changed inside a packet"
            (packet,) = beat.packets([i["beat"] for i in current])
            out.append((item["hdr"], packet, begin))
            current = []
    assert not current
    return out


async def run(dut, sources, sinks, beats, limit=60000):
    await start(dut)
    for runner in [*sources, *sinks]:
        cocotb.start_soon(runner.run())
    await wait_for(dut.clk_i, lambda: sum(len(s.items) for s in sinks) == beats, limit)
    for _ in range(20):
        await FallingEdge(dut.clk_i)
    assert sum(len(s.items) for s in sinks) == beats, "more came out than went in"


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4, 0.8])
async def delivers(dut, idle, stall):
    """No loss, no duplicate, right type, intact, in order per input, class and output."""
    sources, sinks = set_up(dut, idle, stall)
    sent = {}
    for number in range(120):
        for index, source in enumerate(sources):
            rng = source.random
            header, packet = put(source, index, number, int(rng.random() < 0.3),
                                 int(rng.random() < 0.5), rng.randint(1, 150))
            sent[header] = packet
    await run(dut, sources, sinks, sum(len(beat.beats(p)) for p in sent.values()))
    for output, sink in enumerate(sinks):
        order = {}
        for header, packet, _ in received(sink):
            assert sent.pop(header) == packet
            assert header >> 13 & 1 == OUT_TYPE[output]
            flow = header >> 14
            assert order.get(flow, -1) < header & 0x1FFF, "order within input and class"
            order[flow] = header & 0x1FFF
    assert not sent, "lost packets"


@cocotb.test()
async def shares_work(dut):
    """Equal packets of type 0 alternate between its two modules."""
    sources, sinks = set_up(dut, 0.0, 0.0)
    total = 0
    for number in range(40):
        _, packet = put(sources[0], 0, number, 0, 0, 64)
        total += len(beat.beats(packet))
    await run(dut, sources, sinks, total)
    counts = [len(received(s)) for s in sinks]
    assert counts == [20, 20, 0]


@cocotb.test()
async def latency(dut):
    """The first beat of a packet passes an idle switch in 5 cycles, the rest one a cycle."""
    sources, sinks = set_up(dut, 0.0, 0.0)
    put(sources[0], 0, 1, 1, 0, 96)
    await run(dut, sources, sinks, 6)
    assert sinks[2].times[0] - sources[0].taken[0] == 5
    assert sinks[2].times[-1] - sinks[2].times[0] == 5


@cocotb.test()
async def high_class_goes_first(dut):
    """With slow modules, a high packet overtakes low ones that came before it."""
    sources, sinks = set_up(dut, 0.0, 0.9)
    total = 0
    for number in range(30):
        total += len(beat.beats(put(sources[0], 0, number, 1, 1, 48)[1]))
    total += len(beat.beats(put(sources[1], 1, 0, 1, 0, 48)[1]))
    await run(dut, sources, sinks, total)
    order = [header >> 14 for header, _, _ in received(sinks[2])]
    assert order.index(0b10) <= 4, f"the high packet came as number {order.index(0b10)}"


@cocotb.test()
async def low_class_moves(dut):
    """Under a flood of high packets a low one is not starved."""
    sources, sinks = set_up(dut, 0.0, 0.3)
    total = len(beat.beats(put(sources[1], 1, 0, 1, 1, 32)[1]))
    for number in range(80):
        total += len(beat.beats(put(sources[0], 0, number, 1, 0, 32)[1]))
    await run(dut, sources, sinks, total)
    order = [header >> 14 for header, _, _ in received(sinks[2])]
    assert order.index(0b11) <= 12
