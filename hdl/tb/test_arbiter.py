"""Bench for the arbiter, against a model in Python."""

import os
import random

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from stream import start

N = int(os.environ["CV_N"])
LOW_EVERY = int(os.environ["CV_LowEvery"])


class Model:
    """The same policy, written down independently: lists of indices instead of bit masks."""

    def __init__(self):
        self.last = {True: 0, False: 0}
        self.run = 0

    def grant(self, requests, high):
        """Index granted for a set of requests, or None; no change of state."""
        low = [i for i in requests if not high[i]]
        upper = [i for i in requests if high[i]]
        if not requests:
            return None
        cls = not (low and (not upper or self.run == LOW_EVERY))
        group = upper if cls else low
        return min(group, key=lambda i: (i - self.last[cls] - 1) % N)

    def take(self, index, requests, high):
        self.last[high[index]] = index
        if not high[index]:
            self.run = 0
        elif any(not high[i] for i in requests):
            self.run += 1


@cocotb.test()
@cocotb.parametrize(density=[0.1, 0.5, 1.0], taking=[0.3, 1.0])
async def follows_model(dut, density, taking):
    """Same grant as the model, cycle by cycle, for random requests and classes."""
    rng = random.Random(7)
    dut.req_i.value = dut.high_i.value = dut.ready_i.value = 0
    await start(dut)
    model = Model()
    for _ in range(600):
        await FallingEdge(dut.clk_i)
        requests = [i for i in range(N) if rng.random() < density]
        high = [rng.random() < 0.6 for _ in range(N)]
        ready = rng.random() < taking
        dut.req_i.value = sum(1 << i for i in requests)
        dut.high_i.value = sum(h << i for i, h in enumerate(high))
        dut.ready_i.value = int(ready)
        await ReadOnly()
        want = model.grant(requests, high)
        assert int(dut.valid_o.value) == (want is not None)
        if want is None:
            assert int(dut.grant_o.value) == 0
            continue
        assert int(dut.index_o.value) == want
        assert int(dut.grant_o.value) == 1 << want
        if ready:
            model.take(want, requests, high)


@cocotb.test()
async def low_class_is_served(dut):
    """Against high requests that never stop, the low class gets 1 grant in LowEvery + 1."""
    await start(dut)
    dut.req_i.value = (1 << N) - 1
    dut.high_i.value = (1 << N) - 2  # only request 0 is low
    dut.ready_i.value = 1
    grants = []
    for _ in range(10 * (LOW_EVERY + 1)):
        await FallingEdge(dut.clk_i)
        await ReadOnly()
        grants.append(int(dut.index_o.value))
    assert grants.count(0) == 10
    shares = [grants.count(i) for i in range(1, N)]
    assert max(shares) - min(shares) <= 1
