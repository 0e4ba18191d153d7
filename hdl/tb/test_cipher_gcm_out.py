"""Bench for the AES-GCM section, outbound: every payload length against the model, cycles."""

import random

import beat
import cocotb
import esp
from stream import Sink, Source, start, wait_for

RNG = random.Random(21)
SAS = [esp.Sa(cipher="CipherAesGcm", key=RNG.randbytes(size), auth="AuthNone",
              salt=RNG.randbytes(4), spi=RNG.getrandbits(32), src=RNG.randbytes(4),
              dst=RNG.randbytes(4), esn=esn)
       for size in (16, 24, 32) for esn in (False, True)]
HDR_BITS = esp.LAYOUT.widths["seal_hdr_t"]


async def set_up(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "hdr": dut.in_hdr_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                {"beat": dut.out_beat_o, "hdr": dut.out_hdr_o}, stall)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    return source, sink


def put(source, sa, payload):
    """Offers a sealed packet; its header is right with the first beat, and noise behind it."""
    rng = source.random
    packet = esp.ip_packet(rng, 4, max(20, payload))
    sealed = esp.seal(sa, packet, rng.getrandbits(64 if sa.esn else 32), rng.getrandbits(1))
    for number, value in enumerate(beat.beats(sealed.plain)):
        source.put({"beat": value, "hdr": rng.getrandbits(HDR_BITS) if number else sealed.seal_hdr})
    return sealed


async def collect(dut, sink, want):
    """Ciphertext and tag of each packet, with the header of the next section, H taken out of it."""
    counts = [len(beat.beats(s.data)) for s in want]
    await wait_for(dut.clk_i, lambda: len(sink.items) == sum(counts), 100_000)
    got = beat.packets([i["beat"] for i in sink.items])
    place = 0
    for number, (have, sealed, count) in enumerate(zip(got, want, counts, strict=True)):
        assert have == sealed.data, f"packet {number} of {len(sealed.plain)} bytes"
        fields = esp.LAYOUT.unpack("auth_hdr_t", sealed.auth_hdr) | {"auth_keys": 0}
        hdr = esp.LAYOUT.pack("auth_hdr_t", **fields)
        assert {i["hdr"] for i in sink.items[place : place + count]} == {hdr}, f"packet {number}"
        place += count


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def every_length(dut, idle, stall):
    """Payloads of 20 to 200 bytes, around 1500 and 9000, all keys, ESN on and off."""
    source, sink = await set_up(dut, idle, stall)
    lengths = [*range(20, 201), *range(1495, 1506)]
    if idle == stall == 0.0:
        lengths += [8998, 9000, 9100]
    source.random.shuffle(lengths)
    want = [put(source, SAS[i % len(SAS)], n) for i, n in enumerate(lengths)]
    await collect(dut, sink, want)


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.7])
async def short_data(dut, stall):
    """Data of 4 to 20 bytes, as transport mode has it: more tags than beats are under way."""
    source, sink = await set_up(dut, 0.0, stall)
    want = []
    for number in range(150):
        sa = SAS[number % len(SAS)]
        plain = source.random.randbytes(4 * source.random.randint(1, 5))
        count = source.random.getrandbits(32)
        base = esp.seal(sa, esp.ip_packet(source.random, 4, 20), count)
        fields = esp.LAYOUT.unpack("seal_hdr_t", base.seal_hdr) | {"bytes": len(plain)}
        hdr = esp.LAYOUT.pack("seal_hdr_t", **fields)
        for value in beat.beats(plain):
            source.put({"beat": value, "hdr": hdr})
        want.append(esp.Sealed(plain, esp.encrypt(sa, count, plain), b"", hdr, base.auth_hdr))
    await collect(dut, sink, want)


@cocotb.test()
@cocotb.parametrize(payload=[64, 240, 1500])
async def cycles(dut, payload):
    """n + 2 cycles a packet of n beats in a row, as the core has it; 20 to the first beat."""
    source, sink = await set_up(dut, 0.0, 0.0)
    want = [put(source, SAS[0], payload) for _ in range(12)]
    await collect(dut, sink, want)
    plain, sealed = len(beat.beats(want[0].plain)), len(beat.beats(want[0].data))
    ends = sink.times[sealed - 1 :: sealed]
    gaps = {b - a for a, b in zip(ends, ends[1:])}
    latency = sink.times[0] - 1  # offered in cycle 1
    dut._log.info("%d bytes, %d beats: a packet in %s cycles, latency %d", payload, plain, gaps,
                  latency)
    assert gaps == {plain + 2}
    assert latency == 20
