"""Bench for the packer: any cutting of a packet into chunks gives the same beats."""

import beat
import cocotb
from stream import Sink, Source, start, wait_for


def ports(dut, idle, stall):
    source = Source(
        dut.clk_i, dut.in_valid_i, dut.in_ready_o,
        {"data": dut.in_data_i, "bytes": dut.in_bytes_i, "last": dut.in_last_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i, {"beat": dut.out_beat_o}, stall)
    return source, sink


def put(source, packet, sizes):
    """Offers a packet in chunks of the given sizes; bytes beyond a chunk are noise."""
    position = 0
    for number, size in enumerate(sizes):
        chunk = packet[position : position + size]
        noise = source.random.randbytes(16 - size)
        source.put({"data": int.from_bytes(chunk + noise, "big"), "bytes": size,
                    "last": int(number == len(sizes) - 1)})
        position += size
    assert position == len(packet)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4])
async def joins_random_chunks(dut, idle, stall):
    """Packets of 1 to 100 bytes in random chunks come out whole, in full beats."""
    source, sink = ports(dut, idle, stall)
    packets = []
    for _ in range(200):
        sizes = [source.random.randint(1, 16) for _ in range(source.random.randint(1, 9))]
        packets.append(source.random.randbytes(sum(sizes)))
        put(source, packets[-1], sizes)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    total = sum(len(beat.beats(p)) for p in packets)
    await wait_for(dut.clk_i, lambda: len(sink.items) == total)
    assert beat.packets(sink.items) == packets


@cocotb.test()
async def full_rate(dut):
    """A first chunk of 8 bytes shifts the packet; still one chunk a cycle passes."""
    source, sink = ports(dut, 0.0, 0.0)
    packet = bytes(range(8 + 10 * 16))
    put(source, packet, [8] + [16] * 10)
    put(source, packet[:8], [8])
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    await wait_for(dut.clk_i, lambda: len(sink.items) == 12)
    assert beat.packets(sink.items) == [packet, packet[:8]]
    # 11 chunks without a gap, then the one cycle in which the spilled rest leaves.
    assert source.taken[10] - source.taken[0] == 10
    assert source.taken[11] - source.taken[10] == 2
