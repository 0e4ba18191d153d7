"""Bench for the replay window, against a model that keeps every accepted number in a set."""

import os
import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from stream import start

WINDOW = int(os.environ["CV_Window"])


class Model:
    """An SA's receiver: full 64-bit numbers, and the set of those it has accepted."""

    def __init__(self, esn, top):
        self.esn, self.top, self.accepted = esn, top, {top} if top else set()

    def infer(self, low):
        """The full number: the candidate that the window's left edge makes possible."""
        if not self.esn:
            return low
        left = self.top - WINDOW + 1
        # The first number with these low bits that does not lie left of the window.
        base = (left >> 32) << 32 | low
        return base if base >= left else base + (1 << 32)

    def check(self, low):
        """(fresh, number) for a packet, without accepting it."""
        number = self.infer(low)
        if not 0 < number < 1 << 64 or number <= self.top - WINDOW:
            return False, number
        return number not in self.accepted, number

    def accept(self, number):
        self.accepted.add(number)
        self.top = max(self.top, number)

    def seen(self):
        return sum(1 << i for i in range(WINDOW) if self.top - i in self.accepted)


async def ask(dut, esn, low, top, seen):
    await FallingEdge(dut.clk_i)
    dut.in_valid_i.value = 1
    dut.in_esn_i.value, dut.in_seq_i.value = int(esn), low
    dut.in_top_i.value, dut.in_seen_i.value = top, seen
    await FallingEdge(dut.clk_i)
    dut.in_valid_i.value = 0
    await ReadOnly()
    assert int(dut.out_valid_o.value) == 1
    return (int(dut.out_fresh_o.value), int(dut.out_late_o.value), int(dut.out_high_o.value),
            int(dut.out_top_o.value), int(dut.out_seen_o.value))


@cocotb.test()
@cocotb.parametrize(esn=[False, True],
                    begin=[0, 1, WINDOW - 2, WINDOW, 0xFFFFFFFF - WINDOW, 0x1_0000_0005,
                           0x1_FFFF_FFF0, 0xFFFFFFFF_FFFFFF00])
async def follows_model(dut, esn, begin):
    """Packets in, around and far from the window, over wraps of the lower half."""
    rng = random.Random(begin ^ esn)
    dut.in_valid_i.value = 0
    await start(dut)
    if not esn:
        begin &= 0xFFFFFFFF
    model = Model(esn, begin)
    top, seen = begin, model.seen()
    for _ in range(250):
        step = rng.choice([1, 1, 1, 2, -1, 0, rng.randint(-2 * WINDOW, 2 * WINDOW),
                           rng.randint(-WINDOW, -1)])
        low = (model.top + step) & 0xFFFFFFFF
        fresh, number = model.check(low)
        got_fresh, late, high, new_top, new_seen = await ask(dut, esn, low, top, seen)
        assert got_fresh == fresh, (hex(model.top), hex(low))
        if not fresh:
            assert (new_top, new_seen) == (top, seen), "a refused packet changes nothing"
            repeat = 0 < number < 1 << 64 and number in model.accepted and \
                number > model.top - WINDOW
            assert late == (not repeat)
            continue
        assert high == number >> 32
        if rng.random() < 0.2:
            continue  # the integrity check fails: the owner does not store the new window
        model.accept(number)
        assert new_top == model.top
        assert new_seen == model.seen()
        top, seen = new_top, new_seen
