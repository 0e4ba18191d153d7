"""Bench for inbound AES-GCM: what leaves is authentic and accepted, exactly once, and everything
else leaves nothing but its drop reason. The packets are OpenSSL's.
"""

import os

import beat
import cocotb
from cocotb.triggers import RisingEdge
from open_model import (ACCEPT, CLEAR, DROP, GCM, NONE, OPEN, OpenSa, ip_header, open_hdr)
from open_sad import Drops, OpenSad
from stream import Sink, Source, start, wait_for

CLIENTS = int(os.environ["CV_Clients"])


class Bench:
    """The module between a source, a SAD, a sink and the list of drops, with what must come out."""

    def __init__(self, dut, idle, stall, delay=(0, 6)):
        self.dut = dut
        self.source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                             {"beat": dut.in_beat_i, "hdr": dut.in_hdr_i}, idle)
        self.sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                         {"beat": dut.out_beat_o, "hdr": dut.out_hdr_o}, stall)
        self.sad = OpenSad(dut, clients=CLIENTS, delay=delay)
        # Requests of several ports keep their order while none of them waits to be taken.
        self.sad.steady |= CLIENTS > 1
        self.drops = Drops(dut)
        self.random = self.source.random
        self.want, self.want_drops, self.want_requests = [], [], []

    def sa(self, index, **more):
        return OpenSa(index=index, spi=0x2000 + index, cipher=GCM, auth=NONE, **more)

    async def start(self):
        await start(self.dut)
        for runner in (self.source, self.sink, self.sad, self.drops):
            cocotb.start_soon(runner.run())

    def put(self, sa, number, text_bytes, change=None, drop=None, asks=True):
        """Offers a packet. `change(fields, data)` changes the header's fields or returns other data;
        a packet that is to be dropped names the reason, and whether the SAD hears of it."""
        text, iv = self.random.randbytes(text_bytes), self.random.randbytes(8)
        data = sa.seal(number, text, iv)[8:]
        net = ip_header(sa.v6, sa.src, sa.dst, 50, 16 + len(data), tos=self.random.getrandbits(8))
        fields = OPEN.unpack(open_hdr(sa, number, net, iv, len(data), len(net) + 16 + len(data)))
        fields["low"] = number & 1
        if change:
            data = change(fields, data) or data
        hdr = OPEN.pack(**fields)
        for value in beat.beats(data):
            self.source.put({"beat": value, "hdr": hdr})
        if asks:
            self.want_requests.append((sa.index, number >> 32, number & 0xFFFFFFFF))
        if drop:
            self.want_drops.append(DROP[drop])
        else:
            clear = {name: fields[name]
                     for name in ("low", "sa", "spi", "reqid", "tunnel", "net", "ip")}
            self.want.append((CLEAR.pack(**clear), text))

    async def finish(self, limit=200000):
        beats = sum(len(beat.beats(p)) for _, p in self.want)
        await wait_for(self.dut.clk_i, lambda: len(self.sink.items) >= beats
                       and len(self.drops.reasons) >= len(self.want_drops)
                       and not self.source.queue, limit)
        for _ in range(150):
            await RisingEdge(self.dut.clk_i)
        got = beat.packets([i["beat"] for i in self.sink.items])
        assert got == [p for _, p in self.want]
        assert [i["hdr"] for i in self.sink.items] == [
            h for h, p in self.want for _ in beat.beats(p)]
        assert self.drops.reasons == self.want_drops
        asked = [(r["sa"], r["high"], r["seq"]) for r in self.sad.requests]
        assert asked == self.want_requests, "the SAD heard of other packets than the authentic ones"
        assert all(r["op"] == ACCEPT for r in self.sad.requests)


def flip(position, bits=1):
    """Changes one byte of the data; negative positions lie in the ICV."""
    def change(_, data):
        data = bytearray(data)
        data[position] ^= bits
        return bytes(data)
    return change


def flip_field(name, bit):
    def change(fields, _):
        fields[name] ^= 1 << bit
    return change


@cocotb.test()
@cocotb.parametrize(key_bytes=[16, 24, 32], esn=[False, True])
async def every_length(dut, key_bytes, esn):
    """Text of every length from 1 to 200, and around 1500 and 9000."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    sa = bench.sa(7, key_bytes=key_bytes, esn=esn)
    high = 0xABCDEF01 << 32 if esn else 0
    lengths = [*range(1, 201), 1480, 1500, 1504]
    if key_bytes == 32:
        lengths += [9000, 4, 9160]
    for number, length in enumerate(lengths, 1):
        bench.put(sa, high | number, length)
    await bench.finish()


@cocotb.test()
async def every_bit_of_the_icv(dut):
    """A packet with any one bit of its ICV wrong is dropped, and the SAD does not hear of it; the
    packets between them pass."""
    bench = Bench(dut, 0.0, 0.0, (0, 0))
    await bench.start()
    sa = bench.sa(7)
    for bit in range(128):
        bench.put(sa, 2 * bit + 1, 4 + bit % 40, flip(-1 - bit // 8, 1 << bit % 8), "Integrity",
                  asks=False)
        if bit % 8 == 0:
            bench.put(sa, 2 * bit + 2, 20)
    await bench.finish()


@cocotb.test()
async def everything_authentic(dut):
    """A change of any byte of the ciphertext, any bit of SPI, number, IV and salt."""
    bench = Bench(dut, 0.2, 0.2)
    await bench.start()
    sa = bench.sa(9, esn=True)
    high = 5 << 32
    for position in range(40):
        bench.put(sa, high | position, 40, flip(position, 0x10), "Integrity", asks=False)
    for name, bits in (("spi", 32), ("number", 64), ("iv", 64), ("salt", 32)):
        for bit in range(bits):
            bench.put(sa, high | bit, 20, flip_field(name, bit), "Integrity", asks=False)
    bench.put(sa, high | 1, 20)
    await bench.finish()


@cocotb.test()
async def late_icv(dut):
    """Beats that come so slowly that the tag is there long before the ICV."""
    bench = Bench(dut, 0.97, 0.0)
    await bench.start()
    sa = bench.sa(8)
    for number in range(1, 16):
        bench.put(sa, number, 4 * number)
        bench.put(sa, number, 4 * number, flip(-1), "Integrity", asks=False)
    await bench.finish()


@cocotb.test()
async def replays(dut):
    """Of packets with one number that are on their way together, the SAD accepts one."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    sa, other = bench.sa(3), bench.sa(4)
    bench.put(sa, 1, 20)
    bench.put(sa, 1, 24, drop="Replay")
    bench.put(sa, 1, 24, drop="Replay")
    bench.put(other, 1, 20)
    bench.put(sa, 2, 20, flip(-1), "Integrity", asks=False)
    bench.put(sa, 2, 40)
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
        bench.put(bench.sa(3), number, 12 * number, drop=reason)
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.5, 0.95], delay=[(0, 0), (0, 40)])
async def mixed(dut, idle, stall, delay):
    """Good, forged and repeated packets of several SAs back to back."""
    bench = Bench(dut, idle, stall, delay)
    await bench.start()
    sas = [bench.sa(1), bench.sa(2, esn=True, v6=True, key_bytes=32), bench.sa(3, key_bytes=24)]
    last = {sa.index: 0xFFFFFFF0 if sa.esn else 0 for sa in sas}
    begin = dict(last)
    for _ in range(100):
        sa = bench.random.choice(sas)
        size = 4 * bench.random.choice([1, 3, 4, 5, 17, 100])
        kind = bench.random.choice("good good good bad again".split())
        if kind == "again" and last[sa.index] > begin[sa.index]:
            bench.put(sa, last[sa.index], size, drop="Replay")
        elif kind == "bad":
            bench.put(sa, last[sa.index] + 1, size, flip(bench.random.randrange(-16, size)),
                      "Integrity", asks=False)
        else:
            last[sa.index] += 1
            bench.put(sa, last[sa.index], size)
    await bench.finish()


@cocotb.test()
async def cycles(dut):
    """n + 2 cycles a packet of n beats, where the SAD's ports keep up with it."""
    bench = Bench(dut, 0.0, 0.0, (4, 4))
    await bench.start()
    sa = bench.sa(3)
    number = 0
    for inner in (64, 1500):
        size = (inner + 2 + 3) // 4 * 4
        beats = (size + 15) // 16
        first = len(bench.sink.items)
        begin = len(bench.source.taken)
        for _ in range(12):
            number += 1
            bench.put(sa, number, size)
        await bench.finish()
        firsts = bench.sink.times[first::beats]
        gaps = [b - a for a, b in zip(firsts, firsts[1:])]
        dut._log.info("%d bytes inside, %d ports: %d beats, first out after %d, then one in %s",
                      inner, CLIENTS, beats, firsts[0] - bench.source.taken[begin], gaps)
        # The tag, as cv_aes_gcm says it, 2 cycles, and the SAD's 5.
        assert firsts[0] - bench.source.taken[begin] == 18 - 1 + beats - 1 + 6 + 2 + 5
        # One port has a packet for 7 cycles here: 5 the SAD's, 2 the module's.
        assert max(gaps) <= max(beats + 2, -(-7 // CLIENTS))
