"""The SAD's side of a client port: answers requests in order, from a list."""

import random

from cocotb.triggers import FallingEdge, ReadOnly
from esp import LAYOUT


class SadPort:
    """Answers the requests of one client, each `delay()` cycles after it was taken (at least 1).

    `expect()` says what the next request must be and what its answer is.
    """

    def __init__(self, dut, delay=lambda: 1, idle=0.0, seed=5):
        self.dut, self.delay, self.idle = dut, delay, idle
        self.random = random.Random(seed)
        self.queue = []
        self.asked = 0
        dut.req_ready_i.value = 0
        dut.rsp_valid_i.value = 0
        dut.rsp_i.value = 0

    def expect(self, request, answer):
        """Fields of sad_req_t, fields of sad_rsp_t."""
        self.queue.append((LAYOUT.pack("sad_req_t", **request), LAYOUT.pack("sad_rsp_t", **answer)))

    async def run(self):
        dut = self.dut
        answer, wait = None, 0
        while True:
            await FallingEdge(dut.clk_i)
            wait -= 1
            show = answer is not None and wait <= 0
            dut.rsp_valid_i.value = int(show)
            dut.rsp_i.value = answer if show else self.random.getrandbits(len(dut.rsp_i))
            ready = answer is None and self.random.random() >= self.idle
            dut.req_ready_i.value = int(ready)
            await ReadOnly()
            if show and int(dut.rsp_ready_o.value):
                answer = None
            if ready and int(dut.req_valid_o.value):
                request, answer = self.queue.pop(0)
                assert int(dut.req_o.value) == request, f"request {self.asked}"
                self.asked += 1
                wait = self.delay()
