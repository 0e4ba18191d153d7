"""The SAD as the inbound sections see it: answers their requests, with random delays.

It accepts each number of an SA once and keeps every request, so a bench can tell what was asked.
"""

import random

from cocotb.triggers import FallingEdge, ReadOnly
from open_model import ACCEPT, COUNT, DROP, FIND, SAD_REQ, SAD_RSP


class OpenSad:
    """All clients of a module; `sas` maps (v6, dst, spi) to an OpenSa.

    `find` and `accept` may be replaced: they take the request's fields and return the answer's.
    """

    def __init__(self, dut, sas=(), clients=1, delay=(0, 6), seed=3):
        self.dut, self.clients, self.delay = dut, clients, delay
        self.random = random.Random(seed)
        self.steady = delay[0] == delay[1]  # takes requests at once
        self.sas = {}
        for sa in sas:
            self.add(sa)
        self.requests = []
        self.accepted = set()
        self.number = lambda sa, seq: seq  # upper half and all, of a packet that SadFind is asked for
        dut.req_ready_i.value = 0
        dut.rsp_valid_i.value = 0
        self.answers = hasattr(dut, "rsp_i")  # who only counts reads none
        if self.answers:
            dut.rsp_i.value = 0

    def add(self, sa):
        self.sas[int(sa.v6), int.from_bytes(sa.dst.ljust(16, b"\0"), "big"), sa.spi] = sa

    def find(self, req):
        sa = self.sas.get((req["v6"], req["dst"], req["spi"]))
        if sa is None:
            return {"drop": DROP["NoSa"]}
        return {"sa": sa.index, "number": self.number(sa, req["seq"]), "data": sa.packed()}

    def accept(self, req):
        number = req["sa"], req["high"] << 32 | req["seq"]
        if number in self.accepted:
            return {"drop": DROP["Replay"]}
        self.accepted.add(number)
        return {}

    def answer(self, req):
        self.requests.append(req)
        assert req["op"] in (FIND, ACCEPT, COUNT), "not an inbound request"
        # What an answer does not define is noise.
        noise = {"sa": self.random.getrandbits(10), "number": self.random.getrandbits(64),
                 "iv": self.random.getrandbits(64),
                 "data": self.random.getrandbits(SAD_RSP.fields["data"])}
        told = {FIND: self.find, ACCEPT: self.accept, COUNT: lambda req: {}}[req["op"]](req)
        return SAD_RSP.pack(**noise | told)

    async def run(self):
        """Serves for ever: on each port one request at a time."""
        dut, width = self.dut, SAD_RSP.bits
        asked = [None] * self.clients  # [cycles to wait, answer]
        while True:
            await FallingEdge(dut.clk_i)
            ready = valid = rsp = 0
            for lane in range(self.clients):
                if asked[lane] is None:
                    ready |= int(self.steady or self.random.random() < 0.8) << lane
                elif asked[lane][0]:
                    asked[lane][0] -= 1
                else:
                    valid |= 1 << lane
                    rsp |= asked[lane][1] << (lane * width)
            dut.req_ready_i.value, dut.rsp_valid_i.value = ready, valid
            if self.answers:
                dut.rsp_i.value = rsp
            await ReadOnly()
            taken = int(dut.req_valid_o.value) & ready
            given = int(dut.rsp_ready_o.value) & valid
            for lane in range(self.clients):
                if given >> lane & 1:
                    asked[lane] = None
                if taken >> lane & 1:
                    whole = int(dut.req_o.value) >> (lane * SAD_REQ.bits)
                    req = SAD_REQ.unpack(whole & (1 << SAD_REQ.bits) - 1)
                    asked[lane] = [self.random.randint(*self.delay), self.answer(req)]


class Drops:
    """Collects the reasons of dropped packets."""

    def __init__(self, dut):
        self.dut, self.reasons = dut, []

    async def run(self):
        while True:
            await FallingEdge(self.dut.clk_i)
            await ReadOnly()
            if int(self.dut.drop_valid_o.value):
                self.reasons.append(int(self.dut.drop_reason_o.value))
