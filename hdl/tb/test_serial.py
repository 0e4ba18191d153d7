"""Bench for cv_serial: hold_o is high exactly while a packet that has come in whole is inside."""

import os
import random

import cocotb
from cocotb.triggers import FallingEdge
from stream import start

ENABLE = os.environ["CV_Enable"] == "1'b1"


async def pulse(dut, come=0, gone=0):
    dut.come_i.value, dut.gone_i.value = come, gone
    await FallingEdge(dut.clk_i)
    dut.come_i.value, dut.gone_i.value = 0, 0


@cocotb.test()
async def holds_between_come_and_gone(dut):
    """Packets that leave after they came, in the same cycle, or (dropped early) before."""
    rng = random.Random(5)
    dut.come_i.value = dut.gone_i.value = 0
    await start(dut)
    for _ in range(200):
        assert not int(dut.hold_o.value), "nothing is inside"
        order = rng.choice(["after", "together", "before"])
        if order == "together":
            await pulse(dut, come=1, gone=1)
        elif order == "before":
            await pulse(dut, gone=1)
            for _ in range(rng.randrange(3)):
                assert not int(dut.hold_o.value)
                await FallingEdge(dut.clk_i)
            await pulse(dut, come=1)
        else:
            await pulse(dut, come=1)
            for _ in range(rng.randrange(5)):
                assert int(dut.hold_o.value) == ENABLE
                await FallingEdge(dut.clk_i)
            assert int(dut.hold_o.value) == ENABLE
            await pulse(dut, gone=1)
