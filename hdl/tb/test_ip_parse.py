"""Bench for the IP header parser, against a parser in Python."""

import random

import beat
import cocotb
import ip
from cocotb.triggers import FallingEdge, ReadOnly
from records import IP_INFO, SELECTOR, Drop, unpack
from stream import Source, start, wait_for


async def watch(dut, heads, tails):
    """Collects the pulses, and that no `tail` comes before its `head`."""
    while True:
        await FallingEdge(dut.clk_i)
        await ReadOnly()
        if int(dut.head_valid_o.value):
            heads.append((int(dut.head_drop_o.value),
                          unpack(IP_INFO, int(dut.head_info_o.value)),
                          unpack(SELECTOR, int(dut.head_select_o.value)),
                          bool(int(dut.head_fragment_o.value)), int(dut.head_upper_o.value)))
        if int(dut.tail_valid_o.value):
            tails.append(int(dut.tail_drop_o.value))
            assert len(tails) <= len(heads), "a tail before its head"


async def set_up(dut, idle):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o, {"beat": dut.in_beat_i}, idle)
    heads, tails = [], []
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(watch(dut, heads, tails))
    return source, heads, tails


async def check(dut, packets, idle):
    """Sends the packets and compares each pulse. Returns the drop reasons seen."""
    source, heads, tails = await set_up(dut, idle)
    for packet in packets:
        for value in beat.beats(packet):
            source.put(value)
    await wait_for(dut.clk_i, lambda: len(tails) == len(packets), 40 * len(source.queue) + 1000)
    await wait_for(dut.clk_i, lambda: not source.queue)
    for _ in range(5):
        await FallingEdge(dut.clk_i)
    assert len(heads) == len(tails) == len(packets)
    for packet, head, tail in zip(packets, heads, tails):
        want_head, want_tail, info, select, fragment, upper = ip.parse(packet)
        assert (head[0], tail) == (want_head, want_tail), packet.hex()
        if want_head == Drop.NONE:
            assert head[1] == info, packet.hex()
            assert head[2] == select, packet.hex()
            assert head[3:] == (fragment, upper), packet.hex()
    return source, tails


def udp(length=8):
    return b"\x12\x34\x56\x78" + bytes(i % 251 for i in range(length - 4))


def samples(rng):
    """(packet, tail drop) by hand: every kind of header and every reason to drop."""
    ok, header, long = Drop.NONE, Drop.HEADER, Drop.TOO_LONG
    options, fragment = ip.options_header, ip.fragment_header
    yield ip.ipv4(udp(), tos=0xB9, df=True), ok
    yield ip.ipv4(udp(), options=bytes([1] * 4)), ok
    yield ip.ipv4(udp(), options=rng.randbytes(40)), ok
    yield ip.ipv4(b"\x08\x03rest", proto=1), ok
    yield ip.ipv4(b"\x08\x03", proto=1, options=bytes(4)), ok
    yield ip.ipv4(b"", proto=50), ok
    yield ip.ipv4(b"x", proto=47), ok
    yield ip.ipv4(udp(4), proto=6), ok
    yield ip.ipv4(udp(16), more=True), ok
    yield ip.ipv4(udp(16), offset=3), ok
    yield ip.ipv4(b"x", offset=3), ok
    yield ip.ipv4(b"", offset=8189), ok
    yield ip.ipv6(udp(), tos=0xA6), ok
    yield ip.ipv6(b"\x80\x01x", proto=58), ok
    yield ip.ipv6(b"", proto=59), ok
    yield ip.ipv6(udp(), extensions=[(0, options(0)), (43, options(2)), (60, options(1))]), ok
    yield ip.ipv6(udp(), extensions=[(51, b"\x04" + bytes(22))]), ok
    yield ip.ipv6(b"", proto=59, extensions=[(60, options(0))]), ok
    yield ip.ipv6(udp(), extensions=[(44, fragment(0, True))]), ok
    yield ip.ipv6(udp(), extensions=[(44, fragment(0, True)), (60, options(0))]), ok
    yield ip.ipv6(b"x", extensions=[(44, fragment(9, False))]), ok
    yield ip.ipv6(b"x", proto=60, extensions=[(44, fragment(9, False))]), ok
    # Up to the limit of 128 bytes, ports behind it; and beyond.
    yield ip.ipv6(udp(), extensions=[(60, options(10))]), ok
    yield ip.ipv6(udp(), extensions=[(60, options(11))]), ok
    yield ip.ipv6(b"", extensions=[(60, options(9)), (60, b"\xff" + bytes(6))]), ok
    # Malformed: version, lengths, checksum.
    yield b"\x55" + ip.ipv4(udp())[1:], header
    yield b"\0", header
    yield ip.ipv4(udp())[:8], header
    yield ip.ipv4(udp())[:19], header
    yield ip.ipv4(udp(), ihl=4), header
    yield ip.ipv4(b"", ihl=15, proto=50), header
    yield ip.ipv4(udp(), total=19), header
    yield ip.ipv4(udp(), options=bytes(8), total=24), header
    good = bytearray(ip.ipv4(udp()))
    for at in (1, 5, 10, 14, 19):
        bad = bytearray(good)
        bad[at] ^= 1 << rng.randrange(8)
        yield bytes(bad), header
    yield ip.ipv4(udp(), offset=8191, total=28), header
    yield ip.ipv4(udp(3)[:3], proto=6), header
    yield ip.ipv4(b"\x08", proto=1), header
    yield ip.ipv6(udp())[:39], header
    yield ip.ipv6(udp())[:9], header
    yield ip.ipv6(b"\0\1\0", proto=17), header
    yield ip.ipv6(b"", proto=17), header
    yield ip.ipv6(b"\x80", proto=58), header
    yield ip.ipv6(b"\x11\0\0\0", proto=60), header
    yield ip.ipv6(b"\x11\1" + bytes(6), proto=60), header
    yield ip.ipv6(b"", proto=17, extensions=[(60, options(0))]), header
    yield ip.ipv6(udp(), extensions=[(60, options(0)), (0, options(0))]), header
    yield ip.ipv6(udp(), extensions=[(51, b"\x05" + bytes(26))]), header
    yield ip.ipv6(udp(), extensions=[(44, fragment(0, True)), (44, fragment(0, True))]), header
    yield ip.ipv6(udp(16), extensions=[(44, fragment(8191, False))]), header
    # Not as long as the header says.
    yield ip.ipv4(udp(), total=29), long
    yield ip.ipv4(udp(), total=27), long
    yield ip.ipv4(udp(), total=65535), long
    yield ip.ipv6(udp(), length=9), long
    yield ip.ipv6(udp(), length=65535), long


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6])
async def every_kind(dut, idle):
    """Each kind of header, and each way in which it can be wrong."""
    rng = random.Random(3)
    pairs = list(samples(rng))
    rng.shuffle(pairs)
    _, tails = await check(dut, [p for p, _ in pairs], idle)
    for (packet, want), got in zip(pairs, tails):
        assert got == want, packet.hex()


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5])
async def changed_and_cut(dut, idle):
    """Packets with random bytes changed, cut or made longer, one behind the other."""
    rng = random.Random(int(10 * idle))
    good = [p for p, _ in samples(rng)]
    packets = []
    for _ in range(1200):
        packet = bytearray(rng.choice(good))
        for _ in range(rng.choice([0, 1, 1, 2])):
            packet[rng.randrange(min(len(packet), 80))] = rng.choice([rng.randrange(256), 0, 44, 60])
        if rng.random() < 0.2:
            del packet[rng.randrange(1, len(packet) + 1):]
        if rng.random() < 0.1:
            packet += rng.randbytes(rng.randrange(20))
        if len(packet) > 20 and packet[0] == 0x45 and rng.random() < 0.7:
            packet[10:12] = b"\0\0"
            packet[10:12] = ip.checksum(bytes(packet[:20])).to_bytes(2, "big")
        packets.append(bytes(packet))
    _, tails = await check(dut, packets, idle)
    for reason in (Drop.NONE, Drop.HEADER, Drop.TOO_LONG):
        assert tails.count(reason) > 30, "the mix must have every outcome"


@cocotb.test()
async def longest(dut):
    """MaxBytes passes; one byte more is too long, however it ends, and said before the end."""
    sizes = [9216, 9217, 9216, 9232, 9233, 12000]
    packets = [ip.ipv4(bytes(4) + bytes(size - 24)) for size in sizes] + [ip.ipv4(udp())]
    _, tails = await check(dut, packets, 0.0)
    assert tails == [Drop.NONE, Drop.TOO_LONG, Drop.NONE, Drop.TOO_LONG, Drop.TOO_LONG,
                     Drop.TOO_LONG, Drop.NONE]


@cocotb.test()
async def too_long_is_told_at_once(dut):
    """The reason comes while the packet still does, and once."""
    source, heads, tails = await set_up(dut, 0.0)
    for value in beat.beats(ip.ipv4(bytes(30000))):
        source.put(value)
    await wait_for(dut.clk_i, lambda: tails)
    assert tails == [Drop.TOO_LONG] and 9216 // 16 + 1 <= len(source.taken) <= 9216 // 16 + 2
    await wait_for(dut.clk_i, lambda: not source.queue)
    for _ in range(10):
        await FallingEdge(dut.clk_i)
    assert len(tails) == len(heads) == 1


@cocotb.test()
async def rate(dut):
    """Two cycles for each beat that the headers reach into, one for each other beat."""
    cases = [(ip.ipv4(udp(44)), 4 + 2), (ip.ipv4(udp(1480)), 94 + 2), (ip.ipv6(udp(24)), 4 + 3),
             (ip.ipv6(udp(), extensions=[(60, ip.options_header(1))]), 4 + 4)]
    source, _, tails = await set_up(dut, 0.0)
    for packet, cycles in cases:
        source.taken.clear()
        tails.clear()
        for value in beat.beats(packet) * 20:
            source.put(value)
        await wait_for(dut.clk_i, lambda: len(tails) == 20)
        size = (len(packet) + 15) // 16
        lasts = source.taken[size - 1::size]
        gaps = {b - a for a, b in zip(lasts, lasts[1:])}
        assert gaps == {cycles}, f"{gaps}, not {cycles} cycles"
