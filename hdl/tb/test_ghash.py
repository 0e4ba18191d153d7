"""Bench for GHASH: an SP 800-38D example, random messages and keys, one block a cycle."""

import random

import cocotb
import gcm
from cocotb.triggers import FallingEdge, ReadOnly
from stream import start

LATENCY = 5


async def run(dut, messages, idle):
    """Sends messages (hash key, blocks); returns results and the cycles of last blocks and results."""
    rng = random.Random(5)
    dut.in_valid_i.value = 0
    await start(dut)
    work = []
    for h, blocks in messages:
        for number, block in enumerate(blocks):
            work.append((h, block, number == 0, len(blocks) - 1 - number))
    results, ends, times = [], [], []
    cycle = 0
    tail = LATENCY + 3
    while work or tail:
        await FallingEdge(dut.clk_i)
        cycle += 1
        send = bool(work) and rng.random() >= idle
        dut.in_valid_i.value = int(send)
        if send:
            h, block, first, after = work.pop(0)
            dut.in_block_i.value = block
            dut.in_powers_i.value = gcm.pack_powers(h)
            dut.in_first_i.value = int(first)
            dut.in_after_i.value = min(after, 3)
            dut.in_more_i.value = int(after > 3)
            if after == 0:
                ends.append(cycle)
        elif not work:
            tail -= 1
        await ReadOnly()
        if int(dut.out_valid_o.value):
            results.append(int(dut.out_hash_o.value))
            times.append(cycle)
    return results, ends, times


@cocotb.test()
async def published_example(dut):
    """The GCM specification's test case 2: one block of ciphertext and the lengths."""
    h = 0x66E94BD4EF8A2C3B884CFA59CA342B2E
    blocks = [0x0388DACE60B6A392F328C2B971B2FE78, 0x80]
    results, _, _ = await run(dut, [(h, blocks)], 0.0)
    assert results == [0xF38CBB1AD69223DCC3457AE5B6B0F885]


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.2, 0.7])
async def random_messages(dut, idle):
    """Messages of 1 to 20 blocks, each with its own key, one after the other."""
    rng = random.Random(11)
    messages = []
    for number in range(60):
        count = number % 9 + 1 if number < 30 else rng.randint(1, 20)
        messages.append((rng.getrandbits(128), [rng.getrandbits(128) for _ in range(count)]))
    results, ends, times = await run(dut, messages, idle)
    assert results == [gcm.ghash(h, blocks) for h, blocks in messages]
    assert [t - e for t, e in zip(times, ends)] == [LATENCY] * len(messages)
