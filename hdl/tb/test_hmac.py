"""Bench for the HMAC unit: RFC 2202 and RFC 4231 vectors, every length, cycles per message."""

import hmac
import os

import beat
import cocotb
import sha
from stream import Sink, Source, start, wait_for

NAME = os.environ["CV_algorithm"]
CYCLES = (80 if NAME == "sha1" else 64) // int(os.environ["CV_RoundsPerCycle"])
STATE_BITS = 160 if NAME == "sha1" else 256

# RFC 2202 section 3 (SHA-1) and RFC 4231 section 4 (SHA-256), test cases 1, 2, 3 and 7 (6 there).
LONG_KEY = b"\xaa" * (80 if NAME == "sha1" else 131)
VECTORS = {
    "sha1": [
        (b"\x0b" * 20, b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
        (b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        (b"\xaa" * 20, b"\xdd" * 50, "125d7342b9ac11cd91a39af48aa17b4f63f175d3"),
        (LONG_KEY, b"Test Using Larger Than Block-Size Key - Hash Key First",
         "aa4ae5e15272d00e95705637ce8a3b55ed402112"),
    ],
    "sha256": [
        (b"\x0b" * 20, b"Hi There",
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (b"Jefe", b"what do ya want for nothing?",
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        (b"\xaa" * 20, b"\xdd" * 50,
         "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
        (LONG_KEY, b"Test Using Larger Than Block-Size Key - Hash Key First",
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"),
    ],
}[NAME]


async def set_up(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "inner": dut.in_inner_i, "outer": dut.in_outer_i}, idle)
    sink = Sink(dut.clk_i, dut.mac_valid_o, dut.mac_ready_i, {"mac": dut.mac_o}, stall)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    return source, sink


def put(source, key, message):
    """Offers a message; the states are right with its first beat only. Returns its HMAC."""
    inner, outer = (sha.to_int(s) for s in sha.pad_states(NAME, key))
    for number, value in enumerate(beat.beats(message)):
        if number:
            inner, outer = (source.random.getrandbits(STATE_BITS) for _ in range(2))
        source.put({"beat": value, "inner": inner, "outer": outer})
    return int(hmac.new(key, message, NAME).hexdigest(), 16)


def blocks(length):
    """Compressions of a message: inner and outer."""
    return (length + 9 + 63) // 64 + 1


@cocotb.test()
async def rfc_vectors(dut):
    """The published examples."""
    source, sink = await set_up(dut, 0.0, 0.0)
    for key, message, want in VECTORS:
        assert put(source, key, message) == int(want, 16)
    await wait_for(dut.clk_i, lambda: len(sink.items) == len(VECTORS))
    assert sink.items == [int(want, 16) for _, _, want in VECTORS]


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.95])
async def every_length(dut, idle, stall):
    """All lengths from 1 to 140, hence every place of mark and length, and some longer ones."""
    source, sink = await set_up(dut, idle, stall)
    want = []
    for length in [*range(1, 141, 1 if idle == stall == 0.0 else 4), 575, 1500]:
        key = source.random.randbytes(source.random.randint(1, 100))
        want.append(put(source, key, source.random.randbytes(length)))
    await wait_for(dut.clk_i, lambda: len(sink.items) == len(want), 60000)
    assert sink.items == want


@cocotb.test()
async def cycles(dut):
    """n blocks take n * B + 1 cycles in a row of messages, n * B + 8 for a message alone."""
    source, sink = await set_up(dut, 0.0, 0.0)
    for length in (104, 1520):
        del sink.items[:], sink.times[:], source.taken[:]
        for _ in range(6):
            put(source, b"key", bytes(length))
        await wait_for(dut.clk_i, lambda: len(sink.items) == 6)
        alone = sink.times[0] - source.taken[0]
        gaps = [b - a for a, b in zip(sink.times, sink.times[1:])]
        dut._log.info("%d bytes, %d blocks: %d cycles alone, then one in %s", length,
                      blocks(length), alone, gaps)
        assert alone <= blocks(length) * CYCLES + 8
        assert max(gaps) <= blocks(length) * CYCLES + 1
