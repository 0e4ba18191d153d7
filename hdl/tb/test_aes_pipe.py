"""Bench for the pipelined AES: FIPS 197 vectors, random keys block by block, latency."""

import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from stream import start

LATENCY = 15
# FIPS 197, appendix C.
PLAIN = bytes.fromhex("00112233445566778899aabbccddeeff")
VECTORS = [
    (bytes(range(16)), "69c4e0d86a7b0430d8cdb78070b4c55a"),
    (bytes(range(24)), "dda97ca4864cdfe06eaf70a0ec0d7191"),
    (bytes(range(32)), "8ea2b7ca516745bfeafc49904b496089"),
]


async def run(dut, jobs):
    """Sends (key, block) or None for an idle cycle, one a cycle; returns (cycle, block) pairs."""
    dut.in_valid_i.value = 0
    await start(dut)
    results = []
    for cycle in range(len(jobs) + LATENCY + 3):
        await FallingEdge(dut.clk_i)
        job = jobs[cycle] if cycle < len(jobs) else None
        dut.in_valid_i.value = int(job is not None)
        if job is not None:
            key, block = job
            dut.in_block_i.value = int.from_bytes(block, "big")
            dut.in_key_i.value = int.from_bytes(key.ljust(32, b"\0"), "big")
            dut.in_len_i.value = (len(key) - 16) // 8
        await ReadOnly()
        if int(dut.out_valid_o.value):
            results.append((cycle, int(dut.out_block_o.value).to_bytes(16, "big")))
    return results


@cocotb.test()
async def fips_vectors(dut):
    """FIPS 197 C.1 to C.3, back to back, each after exactly 15 cycles."""
    results = await run(dut, [(key, PLAIN) for key, _ in VECTORS])
    want = [(LATENCY + i, bytes.fromhex(c)) for i, (_, c) in enumerate(VECTORS)]
    assert results == want


@cocotb.test()
async def random_blocks(dut):
    """A new key, of any length, in every cycle, with idle cycles in between."""
    rng = random.Random(3)
    jobs = [None if rng.random() < 0.2 else
            (rng.randbytes(rng.choice([16, 24, 32])), rng.randbytes(16)) for _ in range(300)]
    results = await run(dut, jobs)
    want = []
    for cycle, job in enumerate(jobs):
        if job is not None:
            encryptor = Cipher(algorithms.AES(job[0]), modes.ECB()).encryptor()
            want.append((cycle + LATENCY, encryptor.update(job[1])))
    assert results == want
