"""Bench for the packet FIFO: beats in order, each with the header of its packet."""

import os

import beat
import cocotb
from cocotb.triggers import FallingEdge
from stream import Sink, Source, start, wait_for

PACKETS = int(os.environ["CV_Packets"])


def ports(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "hdr": dut.in_hdr_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                {"beat": dut.out_beat_o, "hdr": dut.out_hdr_o}, stall)
    return source, sink


def put(source, packet, header):
    """Offers a packet; after the first beat the header lines carry noise."""
    for number, value in enumerate(beat.beats(packet)):
        source.put({"beat": value, "hdr": header if number == 0 else source.random.randrange(256)})


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.3, 0.8])
async def keeps_packets(dut, idle, stall):
    """Random packets come out whole and in order; every beat shows its packet's header."""
    source, sink = ports(dut, idle, stall)
    want = []
    for _ in range(120):
        packet = source.random.randbytes(source.random.randint(1, 200))
        header = source.random.randrange(256)
        put(source, packet, header)
        want += [{"beat": b, "hdr": header} for b in beat.beats(packet)]
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    await wait_for(dut.clk_i, lambda: len(sink.items) == len(want))
    assert sink.items == want


@cocotb.test()
async def counts_packets(dut):
    """A blocked output leaves it with `Packets` one-beat packets, and packets_o says so."""
    source, _ = ports(dut, 0.0, 1.0)
    for number in range(PACKETS + 2):
        put(source, b"x", number)
    await start(dut)
    cocotb.start_soon(source.run())
    for _ in range(20):
        await FallingEdge(dut.clk_i)
    assert len(source.taken) == PACKETS
    assert int(dut.packets_o.value) == PACKETS
