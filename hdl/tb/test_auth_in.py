"""Bench for the integrity of inbound packets: what leaves is authentic and accepted, exactly once,
and everything else leaves nothing but its drop reason.
"""

import os

import beat
import cocotb
from cocotb.triggers import RisingEdge
from open_model import ACCEPT, AES_CBC, DES, DROP, OPEN, SHA1, TDES, OpenSa, ip_header, open_hdr
from open_sad import Drops, OpenSad
from stream import Sink, Source, start, wait_for

AUTH = int(os.environ["CV_Auth"][-1])
ROUNDS = int(os.environ["CV_RoundsPerCycle"])
CYCLES = (80 if AUTH == SHA1 else 64) // ROUNDS


class Bench:
    """The module between a source, a SAD, a sink and the list of drops, with what must come out."""

    def __init__(self, dut, idle, stall, delay=(0, 6)):
        self.dut = dut
        self.source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                             {"beat": dut.in_beat_i, "hdr": dut.in_hdr_i}, idle)
        self.sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                         {"beat": dut.out_beat_o, "hdr": dut.out_hdr_o}, stall)
        self.sad = OpenSad(dut, delay=delay)
        self.drops = Drops(dut)
        self.random = self.source.random
        self.want, self.want_drops, self.want_requests = [], [], []
        # A word of the header before the first packet keeps the module's assumptions.
        dut.in_hdr_i.value = open_hdr(self.sa(1), 1, ip_header(False, b"a" * 4, b"b" * 4, 50, 1),
                                      bytes(8), 64, 84)

    def sa(self, index, **more):
        return OpenSa(index=index, spi=0x1000 + index, auth=AUTH, seed=AUTH, **more)

    async def start(self):
        await start(self.dut)
        for runner in (self.source, self.sink, self.sad, self.drops):
            cocotb.start_soon(runner.run())

    def put(self, sa, number, blocks, change=None, drop=None, asks=True):
        """Offers a packet of so many blocks behind the IV.

        `change(spi, number, data)` returns the three as they arrive; a packet that is to be dropped
        names the reason, and whether the SAD hears of it.
        """
        text = self.random.randbytes(blocks * sa.block)
        iv = self.random.randbytes(sa.iv_bytes)
        data = sa.seal(number, text, iv)
        body = data[:-sa.icv_bytes]
        seen = number
        if change:
            sa_spi, seen, data = change(sa.spi, number, data)
        else:
            sa_spi = sa.spi
        net = ip_header(sa.v6, sa.src, sa.dst, 50, 8 + len(data))
        fields = OPEN.unpack(open_hdr(sa, seen, net, self.random.randbytes(8), len(data),
                                      len(net) + 8 + len(data)))
        fields["spi"] = sa_spi
        hdr = OPEN.pack(**fields)
        for value in beat.beats(data):
            self.source.put({"beat": value, "hdr": hdr})
        if asks:
            self.want_requests.append((sa.index, number >> 32, number & 0xFFFFFFFF))
        if drop:
            self.want_drops.append(DROP[drop])
        else:
            fields |= {"auth_keys": 0, "bytes": len(body)}
            self.want.append((OPEN.pack(**fields), body))
        return len(data)

    async def finish(self, limit=400000):
        beats = sum(len(beat.beats(p)) for _, p in self.want)
        await wait_for(self.dut.clk_i, lambda: len(self.sink.items) >= beats
                       and len(self.drops.reasons) >= len(self.want_drops)
                       and not self.source.queue, limit)
        for _ in range(4 * CYCLES + 100):
            await RisingEdge(self.dut.clk_i)
        got = beat.packets([i["beat"] for i in self.sink.items])
        assert got == [p for _, p in self.want]
        hdrs = [h for h, p in self.want for _ in beat.beats(p)]
        assert [i["hdr"] for i in self.sink.items] == hdrs
        assert self.drops.reasons == self.want_drops
        asked = [(r["sa"], r["high"], r["seq"]) for r in self.sad.requests]
        assert asked == self.want_requests, "the SAD heard of other packets than the authentic ones"
        assert all(r["op"] == ACCEPT for r in self.sad.requests)


def flip(position, bits=1):
    """Changes one byte of the data; negative positions lie in the ICV."""
    def change(spi, number, data):
        data = bytearray(data)
        data[position] ^= bits
        return spi, number, bytes(data)
    return change


@cocotb.test()
@cocotb.parametrize(cipher=[AES_CBC, DES], esn=[False, True])
async def every_length(dut, cipher, esn):
    """Data of every number of blocks up to 200 bytes, and around 1500 and 9000."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    sa = bench.sa(7, cipher=cipher, esn=esn)
    high = 0xABCDEF01 << 32 if esn else 0
    lengths = [*range(1, 200 // sa.block + 2), 1480 // sa.block, 1504 // sa.block + 1]
    if cipher == AES_CBC and not esn:
        lengths += [8976 // sa.block, 3]
    for number, blocks in enumerate(lengths, 1):
        bench.put(sa, high | number, blocks)
    await bench.finish()


@cocotb.test()
async def every_bit_of_the_icv(dut):
    """A packet with any one bit of its ICV wrong is dropped, and the SAD does not hear of it; the
    packets between them pass."""
    bench = Bench(dut, 0.0, 0.0, (0, 0))
    await bench.start()
    sa = bench.sa(7, cipher=DES)
    for bit in range(8 * sa.icv_bytes):
        bench.put(sa, 2 * bit + 1, 1, flip(-1 - bit // 8, 1 << bit % 8), "Integrity", asks=False)
        if bit % 8 == 0:
            bench.put(sa, 2 * bit + 2, 1)
    await bench.finish()


@cocotb.test()
async def every_byte_of_the_message(dut):
    """A change anywhere under the ICV: data, SPI, number, its upper half."""
    bench = Bench(dut, 0.2, 0.2)
    await bench.start()
    sa = bench.sa(9, esn=True)
    high = 5 << 32
    for position in range(16 + 2 * 16):
        bench.put(sa, high | position, 2, flip(position, 0x80), "Integrity", asks=False)
    for bit in range(32):
        bench.put(sa, high | 1, 1, lambda s, n, d, b=bit: (s ^ 1 << b, n, d), "Integrity",
                  asks=False)
    for bit in range(64):
        bench.put(sa, high | 1, 1, lambda s, n, d, b=bit: (s, n ^ 1 << b, d), "Integrity",
                  asks=False)
    bench.put(sa, high | 1, 2)
    await bench.finish()


@cocotb.test()
async def replays(dut):
    """Of two packets with one number that are on their way together, the SAD accepts one."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    sa, other = bench.sa(3), bench.sa(4)
    bench.put(sa, 1, 1)
    bench.put(sa, 1, 1, drop="Replay")
    bench.put(other, 1, 1)
    # A forgery does not use the number up.
    bench.put(sa, 2, 1, flip(-1), "Integrity", asks=False)
    bench.put(sa, 2, 1)
    bench.put(sa, 2, 4, drop="Replay")
    await bench.finish()


@cocotb.test()
async def what_the_sad_says(dut):
    """Each reason of the SAD is the packet's."""
    bench = Bench(dut, 0.0, 0.0)
    reasons = ["ReplayLate", "HardLimit", None, "NoSa", "Replay", None]
    bench.sad.accept = lambda req: {"drop": DROP[reasons[req["seq"] - 1] or "None"]}
    await bench.start()
    for number, reason in enumerate(reasons, 1):
        bench.put(bench.sa(3), number, number, drop=reason)
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.5, 0.95], delay=[(0, 0), (0, 40)])
async def mixed(dut, idle, stall, delay):
    """Good, forged and repeated packets of several SAs back to back."""
    bench = Bench(dut, idle, stall, delay)
    await bench.start()
    sas = [bench.sa(index, cipher=cipher, esn=esn, v6=v6)
           for index, (cipher, esn, v6) in enumerate(
               [(AES_CBC, False, False), (AES_CBC, True, True), (TDES, True, False)], 1)]
    last = {sa.index: 0xFFFFFFF0 if sa.esn else 0 for sa in sas}
    for _ in range(50):
        sa = bench.random.choice(sas)
        blocks = bench.random.choice([1, 2, 3, 4, 5, 20])
        kind = bench.random.choice("good good good bad again".split())
        if kind == "again" and last[sa.index] & 0xFFFFF and last[sa.index] != 0xFFFFFFF0:
            bench.put(sa, last[sa.index], blocks, drop="Replay")
            continue
        if kind == "bad":
            place = bench.random.randrange(-sa.icv_bytes, sa.iv_bytes + blocks * sa.block)
            bench.put(sa, last[sa.index] + 1, blocks, flip(place), "Integrity", asks=False)
            continue
        last[sa.index] += 1
        bench.put(sa, last[sa.index], blocks)
    await bench.finish()


@cocotb.test()
async def cycles(dut):
    """n * B + 1 cycles a packet back to back: 64 and 1500 bytes in tunnel mode with AES-CBC."""
    bench = Bench(dut, 0.0, 0.0, (4, 4))
    await bench.start()
    sa = bench.sa(3)
    number = 0
    for inner in (64, 1500):
        del bench.sink.times[:], bench.sink.items[:], bench.want[:]
        count, text = 6, (inner + 2 + 15) // 16
        begin = len(bench.source.taken)
        for _ in range(count):
            number += 1
            bench.put(sa, number, text)
        await bench.finish()
        beats = text + 1
        firsts = bench.sink.times[::beats]
        gaps = [b - a for a, b in zip(firsts, firsts[1:])]
        blocks = (8 + 16 + 16 * text + 9 + 63) // 64 + 1
        alone = firsts[0] - bench.source.taken[begin]
        dut._log.info("%d bytes inside: %d blocks, first out after %d, then one in %s cycles",
                      inner, blocks, alone, gaps)
        assert max(gaps) <= blocks * CYCLES + 1
        # That of cv_hmac, 3 cycles, and the SAD's 5.
        assert alone <= blocks * CYCLES + 8 + 3 + 5
