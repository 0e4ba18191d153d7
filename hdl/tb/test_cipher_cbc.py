"""Bench for the CBC sections, AES and DES, both directions: every length, headers, cycles, drops."""

import os
import random

import beat
import cocotb
import esp
from cocotb.triggers import FallingEdge, ReadOnly
from stream import Sink, Source, start, wait_for

AES = os.environ["CV_cipher"] == "aes"
DECRYPT = os.environ.get("CV_Decrypt", "0")[-1] == "1"
ECB = os.environ.get("CV_Ecb", "0")[-1] == "1"
MAX_BYTES = 16 * int(os.environ.get("CV_MaxBeats", 1024))
BLOCK = 16 if AES else 8
SUITES = ([("CipherAesCbc", 16), ("CipherAesCbc", 24), ("CipherAesCbc", 32)] if AES else
          [("CipherDesEcb", 8)] if ECB else [("CipherDes", 8), ("Cipher3Des", 24)])
IN_HDR, OUT_HDR = ("open_hdr_t", "clear_hdr_t") if DECRYPT else ("seal_hdr_t", "auth_hdr_t")
IN_BITS = esp.LAYOUT.widths[IN_HDR]


def association(rng, suite):
    cipher, size = suite
    return esp.Sa(cipher=cipher, key=rng.randbytes(size), spi=rng.getrandbits(32),
                  src=rng.randbytes(4), dst=rng.randbytes(4), auth_key=b"%d" % rng.randrange(4))


class Bench:
    def __init__(self, dut, idle, stall):
        self.dut = dut
        self.source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                             {"beat": dut.in_beat_i, "hdr": dut.in_hdr_i}, idle)
        self.sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                         {"beat": dut.out_beat_o, "hdr": dut.out_hdr_o}, stall)
        self.want, self.drops, self.want_drops = [], 0, 0

    async def start(self):
        await start(self.dut)
        cocotb.start_soon(self.source.run())
        cocotb.start_soon(self.sink.run())
        if not AES:
            cocotb.start_soon(self._watch_drops())

    async def _watch_drops(self):
        while True:
            await FallingEdge(self.dut.clk_i)
            await ReadOnly()
            if int(self.dut.drop_valid_o.value):
                assert int(self.dut.drop_reason_o.value) == esp.LAYOUT.constants["DropTooLong"]
                self.drops += 1

    def put(self, sa, length):
        """Offers a packet whose payload has `length` bytes."""
        rng = self.source.random
        packet = esp.ip_packet(rng, 4, length)
        sealed = esp.seal(sa, packet, rng.getrandbits(64), rng.getrandbits(1))
        data, hdr, out, out_hdr = sealed.plain, sealed.seal_hdr, sealed.data, sealed.auth_hdr
        if DECRYPT:
            common = {"low": rng.getrandbits(1), "sa": rng.getrandbits(10), "spi": sa.spi,
                      "reqid": rng.getrandbits(10), "tunnel": rng.getrandbits(1),
                      "net": rng.getrandbits(320),
                      "ip": {"v6": 1, "bytes": rng.getrandbits(14), "tos": rng.getrandbits(8)}}
            seal = esp.LAYOUT.unpack("seal_hdr_t", hdr)
            seal = {k: seal[k] for k in ("cipher", "auth", "key_len", "key", "bytes", "auth_keys")}
            # The block to be skipped is D(IV): the nonce block.
            data, out = sealed.data, sealed.plain
            hdr = esp.LAYOUT.pack("open_hdr_t", **common, **seal)
            out_hdr = esp.LAYOUT.pack("clear_hdr_t", **common, skip=BLOCK, clear=0)
        for number, value in enumerate(beat.beats(data)):
            self.source.put({"beat": value, "hdr": rng.getrandbits(IN_BITS) if number else hdr})
        if len(data) > MAX_BYTES and not ECB:
            self.want_drops += 1
        else:
            self.want.append((out, out_hdr))

    async def check(self, limit=400_000):
        counts = [len(beat.beats(p)) for p, _ in self.want]
        await wait_for(self.dut.clk_i, lambda: len(self.sink.items) == sum(counts), limit)
        got = beat.packets([i["beat"] for i in self.sink.items])
        place = 0
        for number, (have, (want, hdr), count) in enumerate(
                zip(got, self.want, counts, strict=True)):
            assert have == want, f"packet {number} of {len(want)} bytes"
            here = {i["hdr"] for i in self.sink.items[place : place + count]}
            assert here == {hdr}, f"packet {number}"
            place += count
        assert self.drops == self.want_drops


@cocotb.test()
@cocotb.parametrize((("idle", "stall"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.9), (0.3, 0.5)]))
async def every_length(dut, idle, stall):
    """Payloads of 20 to 200 bytes and around 1500, random keys of every length."""
    bench = Bench(dut, idle, stall)
    await bench.start()
    rng = random.Random(31)
    for length in [*range(20, 201), *range(1494, 1504, 3)]:
        bench.put(association(rng, SUITES[length % len(SUITES)]), length)
    await bench.check()


@cocotb.test()
async def long_packets(dut):
    """Around 9000 bytes among short ones; what has no room in the DES unit is dropped."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    rng = random.Random(32)
    around = [MAX_BYTES - 2 * BLOCK - 2 + i for i in range(3 * BLOCK)] if MAX_BYTES < 9000 else []
    for length in [60, 8998, 20, 9000, 9001, *around, 9150, 64]:
        bench.put(association(rng, SUITES[length % len(SUITES)]), length)
    assert AES or ECB or MAX_BYTES > 9300 or bench.want_drops > BLOCK
    await bench.check()


@cocotb.test(skip=not AES)
@cocotb.parametrize(suite=[0, 1, 2])
async def cycles(dut, suite):
    """The core's 10/12/14 cycles a block without a gap, 3 more between packets to decrypt."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    for _ in range(4):
        bench.put(association(bench.source.random, SUITES[suite]), 62)
    await bench.check()
    gaps = [b - a for a, b in zip(bench.sink.times, bench.sink.times[1:])]
    blocks, rounds = len(bench.sink.times) // 4, 10 + 2 * suite
    assert {g for i, g in enumerate(gaps) if i % blocks != blocks - 1} == {rounds}
    assert {g for i, g in enumerate(gaps) if i % blocks == blocks - 1} == {
        rounds + (3 if DECRYPT else 0)}


@cocotb.test(skip=AES)
@cocotb.parametrize(suite=range(len(SUITES)))
async def cycles_des(dut, suite):
    """CBC: n * p + n / 16 + 2 cycles a packet of n blocks and p passes, many in a row; ECB: 2 cycles
    a beat."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    count = 96
    for _ in range(count):
        bench.put(association(bench.source.random, SUITES[suite]), 206)
    await bench.check()
    blocks = len(bench.want[0][0]) // 8
    beats = len(beat.beats(bench.want[0][0]))
    passes = 3 if SUITES[suite][0] == "Cipher3Des" else 1
    # While the unit is full: from packet 32 on, and before the last 16.
    ends = bench.sink.times[beats - 1 :: beats]
    each = (ends[-17] - ends[31]) / (count - 48)
    bound = 2 * beats if ECB else blocks * passes + blocks / 16 + 2
    dut._log.info("%s, %d blocks: a packet in %.1f cycles, bound %.1f", SUITES[suite][0], blocks,
                  each, bound)
    assert each <= bound
