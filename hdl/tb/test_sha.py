"""Bench for the compression cores: FIPS 180 vectors, random messages, cycles per block."""

import hashlib
import os

import cocotb
import sha
from cocotb.triggers import FallingEdge, ReadOnly
from stream import Source, start, wait_for

NAME = os.environ["CV_algorithm"]
ROUNDS = int(os.environ["CV_RoundsPerCycle"])
CYCLES = (80 if NAME == "sha1" else 64) // ROUNDS
STATE_BITS = 160 if NAME == "sha1" else 256
INIT, _ = sha.ALGORITHMS[NAME]

# FIPS 180-4 examples, as NIST publishes them, in SHA-1 and SHA-256.
VECTORS = [
    (b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d",
     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
    (b"", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
]


class Watch:
    """Collects the state at every done_o."""

    def __init__(self, dut):
        self.dut, self.states, self.times, self.cycle = dut, [], [], 0

    async def run(self):
        while True:
            await FallingEdge(self.dut.clk_i)
            self.cycle += 1
            await ReadOnly()
            if int(self.dut.done_o.value):
                self.states.append(int(self.dut.state_o.value))
                self.times.append(self.cycle)


async def set_up(dut, idle):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"block": dut.in_block_i, "first": dut.in_first_i, "state": dut.in_state_i},
                    idle)
    watch = Watch(dut)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(watch.run())
    return source, watch


def put(source, message, state=INIT, done=0):
    """Offers a message whose first `done` bytes are already in `state`. Returns its blocks."""
    padded = message + sha.pad(done + len(message))
    blocks = [padded[i : i + 64] for i in range(0, len(padded), 64)]
    for number, block in enumerate(blocks):
        first = number == 0
        source.put({"block": int.from_bytes(block, "big"), "first": int(first),
                    "state": sha.to_int(state) if first else source.random.getrandbits(STATE_BITS)})
    return len(blocks)


@cocotb.test()
async def fips_vectors(dut):
    """The published examples."""
    source, watch = await set_up(dut, 0.0)
    for message, sha1, sha256 in VECTORS:
        want = int(sha1 if NAME == "sha1" else sha256, 16)
        count = len(watch.states) + put(source, message)
        await wait_for(dut.clk_i, lambda: len(watch.states) == count)
        assert watch.states[-1] == want


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.9])
async def random_messages(dut, idle):
    """Messages of every length from 0 to 130 bytes, one after the other."""
    source, watch = await set_up(dut, idle)
    want, ends, total = [], [], 0
    for length in range(0, 131, 3):
        message = source.random.randbytes(length)
        total += put(source, message)
        ends.append(total - 1)
        want.append(int(hashlib.new(NAME, message).hexdigest(), 16))
    await wait_for(dut.clk_i, lambda: len(watch.states) == total, 40000)
    assert [watch.states[i] for i in ends] == want


@cocotb.test()
async def any_start_state(dut):
    """A message continues from the state that came with it: HMAC by precomputed pads."""
    source, watch = await set_up(dut, 0.0)
    key, message = b"a key of its own", b"what is protected" * 5
    inner, outer = sha.pad_states(NAME, key)
    blocks = put(source, message, inner, 64)
    await wait_for(dut.clk_i, lambda: len(watch.states) == blocks)
    digest = watch.states[-1].to_bytes(STATE_BITS // 8, "big")
    put(source, digest, outer, 64)
    await wait_for(dut.clk_i, lambda: len(watch.states) == blocks + 1)
    import hmac
    assert watch.states[-1] == int(hmac.new(key, message, NAME).hexdigest(), 16)


@cocotb.test()
async def cycles_per_block(dut):
    """Exactly 80 / RoundsPerCycle (64 / ... for SHA-256) cycles a block, without gaps."""
    source, watch = await set_up(dut, 0.0)
    total = put(source, bytes(64 * 9)) + put(source, b"x")
    await wait_for(dut.clk_i, lambda: len(watch.states) == total)
    gaps = {b - a for a, b in zip(watch.times, watch.times[1:])}
    assert gaps == {CYCLES}, gaps
    dut._log.info("%s, %d rounds a cycle: %d cycles a block", NAME, ROUNDS, CYCLES)
