"""Bench for the second half of decapsulation, against a model of RFC 4303's trailer, RFC 6040's
table and the IP headers in plain Python.
"""

import random
import struct

import beat
import cocotb
from cocotb.triggers import RisingEdge
from open_model import CLEAR, DROP, IP_INFO, checksum, ip_header, ip_info, ip_packet
from open_sad import OpenSad
from stream import Sink, Source, start, wait_for
from uncover_model import CE, ECT0, ECT1, uncover

def padded(payload, next_header, align=4, blocks=0):
    """Payload with padding and trailer; `blocks` are more than alignment asks for."""
    pad = -(len(payload) + 2) % align + blocks * align
    return payload + bytes(range(1, pad + 1)) + bytes([pad, next_header])


class Bench:
    def __init__(self, dut, idle, stall, delay=(0, 0)):
        self.dut = dut
        self.source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                             {"beat": dut.in_beat_i, "hdr": dut.in_hdr_i}, idle)
        self.sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                         {"beat": dut.out_beat_o, "hdr": dut.out_hdr_o}, stall)
        self.sad = OpenSad(dut, delay=delay)
        self.drops, self.want_counts = [], []
        self.random = random.Random(4)
        self.want, self.want_drops = [], []

    async def watch_drops(self):
        from cocotb.triggers import FallingEdge, ReadOnly
        while True:
            await FallingEdge(self.dut.clk_i)
            await ReadOnly()
            if int(self.dut.drop_valid_o.value):
                self.drops.append(int(self.dut.drop_reason_o.value))

    async def start(self):
        await start(self.dut)
        for runner in (self.source.run, self.sink.run, self.sad.run, self.watch_drops):
            cocotb.start_soon(runner())

    def net(self, v6, tos=0, options=b"", **more):
        """An outer header as it was received."""
        size = 16 if v6 else 4
        return ip_header(v6, self.random.randbytes(size), self.random.randbytes(size), 50,
                         self.random.randint(40, 1000), tos=tos, options=options, **more)

    def put(self, text, tunnel=True, net=None, skip=0, expect=None):
        """Offers decrypted text behind `skip` bytes of garbage."""
        net = self.net(False) if net is None else net
        outcome = uncover(text, tunnel, net)
        kind = outcome if isinstance(outcome, str) else "out"
        assert expect is None or kind == expect, f"the model says {kind}, the test {expect}"
        fields = {"low": self.random.getrandbits(1), "reqid": self.random.getrandbits(10)}
        sa, spi = self.random.getrandbits(10), self.random.getrandbits(32)
        hdr = CLEAR.pack(skip=skip, tunnel=tunnel, sa=sa, spi=spi, net=int.from_bytes(net.ljust(40, b"\0"), "big"),
                         ip=IP_INFO.pack(**ip_info(net, 1000)), **fields)
        if kind == "out":
            self.want.append((CLEAR.pack(**fields), outcome))
            self.want_counts.append((sa, spi, len(text) - 2 - text[-2]))
        else:
            self.want_drops.append(DROP[kind])
        # What is skipped looks like padding, so that a check that looks too far shows.
        garbage = bytes(range(1, skip + 1))
        for value in beat.beats(garbage + text):
            self.source.put({"beat": value, "hdr": hdr})

    def put_clear(self, packet):
        noise = CLEAR.unpack(self.random.getrandbits(CLEAR.bits)) | {"clear": 1}
        for value in beat.beats(packet):
            self.source.put({"beat": value, "hdr": CLEAR.pack(**noise)})
        self.want.append((CLEAR.pack(low=noise["low"], clear=1), packet))

    async def finish(self, limit=100000):
        beats = sum(len(beat.beats(p)) for _, p in self.want)
        await wait_for(self.dut.clk_i, lambda: len(self.sink.items) >= beats and
                       len(self.drops) >= len(self.want_drops) and not self.source.queue, limit)
        for _ in range(50):
            await RisingEdge(self.dut.clk_i)
        counts = [(r["sa"], r["spi"], r["bytes"]) for r in self.sad.requests]
        assert counts == self.want_counts, "payloads of what came out by ESP, and nothing else"
        got = beat.packets([i["beat"] for i in self.sink.items])
        assert got == [p for _, p in self.want]
        assert [i["hdr"] for i in self.sink.items] == [
            h for h, p in self.want for _ in beat.beats(p)]
        assert self.drops == self.want_drops


SKIPS = {0: 4, 8: 8, 16: 16}  # skipped bytes: alignment


@cocotb.test()
@cocotb.parametrize(skip=[0, 8, 16], v6=[False, True])
async def tunnel_lengths(dut, skip, v6):
    """Inner packets of every length to 200 bytes, and of about 1500 and 9000."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    for payload in [*range(0, 181), 1440, 1460, 1480, 1500, 8960, 9000]:
        packet = ip_packet(bench.random, v6, payload, tos=bench.random.getrandbits(6) << 2)
        bench.put(padded(packet, 41 if v6 else 4, SKIPS[skip]), skip=skip, expect="out")
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(skip=[0, 8, 16])
async def transport_lengths(dut, skip):
    """Payloads of 0 to 200 bytes behind IPv4 headers, with and without options, and IPv6 headers."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    for length in [*range(0, 201), 1440, 1480, 8900]:
        kind = length % 4
        net = bench.net(kind == 3, tos=bench.random.getrandbits(8),
                        options=bench.random.randbytes(4 * bench.random.randint(1, 5))
                        if kind == 2 else b"", ident=bench.random.getrandbits(16),
                        ttl=bench.random.randint(1, 255))
        for extra in (0, 2):
            text = padded(bench.random.randbytes(length),
                          bench.random.choice([4, 6, 17, 41, 58, 0, 255]), SKIPS[skip], extra)
            bench.put(text, tunnel=False, net=net, skip=skip, expect="out")
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(skip=[0, 8, 16])
async def padding(dut, skip):
    """Padding of every length to 255 bytes; then each of its bytes wrong, and each pad length that
    is not its own, or longer than the text."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    align = SKIPS[skip]
    packet = ip_packet(bench.random, False, 30)
    for blocks in range(0, (255 - 16) // align):
        bench.put(padded(packet, 4, align, blocks), skip=skip, expect="out")
    for blocks in (0, 2, 8, 60 // align, 200 // align):
        text = padded(packet, 4, align, blocks)
        pad = text[-2]
        for place in range(len(text) - 2 - pad, len(text) - 2):
            if pad < 20 or place % 3 == 0:
                bad = bytearray(text)
                bad[place] ^= 1 << bench.random.randrange(8)
                bench.put(bytes(bad), skip=skip, expect="Padding")
        for wrong in range(1, 256):
            if wrong != pad:
                bench.put(text[:-2] + bytes([wrong, 4]), skip=skip)
        # Without any padding the bytes before the trailer are payload.
        bench.put(text[:-2] + bytes([0, 4]), skip=skip, expect="out")
    # Nothing but padding, and all of what is skipped looking like some of it.
    for text in (padded(b"", 4, align), padded(b"", 4, align, 1), bytes(align - 2) + b"\xff\x04",
                 bytes(range(skip + 1, skip + align - 1)) + bytes([skip + align - 2, 4])):
        bench.put(text, skip=skip)
    assert bench.want_drops.count(DROP["Padding"]) > 1000
    await bench.finish()


@cocotb.test()
async def ecn(dut):
    """RFC 6040's table, all 16 cells, in four mixes of versions; IPv4's checksum stays right."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    for outer_v6 in (False, True):
        for v6 in (False, True):
            for cell in range(16):
                for skip, align in SKIPS.items():
                    dscp = bench.random.getrandbits(6) << 2
                    packet = ip_packet(bench.random, v6, 33, tos=dscp | cell >> 2,
                                       ident=bench.random.getrandbits(16))
                    net = bench.net(outer_v6, tos=bench.random.getrandbits(6) << 2 | cell & 3)
                    bench.put(padded(packet, 41 if v6 else 4, align), net=net, skip=skip,
                              expect="Inner" if cell == CE else "out")
    # Checksums at both ends of their range: those of 0 and about it, before and after.
    for ident in range(0xBAC0, 0xBB10):  # 0x4516 with these: 0xffff and about it
        packet = ip_header(False, bytes(4), bytes(4), 0, 0, tos=ECT0, ttl=0, df=False, ident=ident)
        for outer in (CE, ECT1):
            bench.put(padded(packet, 4), net=bench.net(False, tos=outer), expect="out")
    assert all(p[0] >> 4 == 6 or checksum(p[:20]) == 0 for _, p in bench.want)
    await bench.finish()


@cocotb.test()
async def transport_checksums(dut):
    """The rebuilt header's checksum, over the whole range of what it was and becomes."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    for _ in range(600):
        net = ip_header(False, bytes(4), bytes(3) + b"\x01", 50,
                        bench.random.choice([0, 20, 0xFFEB - 20]), ttl=0, df=False,
                        ident=bench.random.choice([bench.random.getrandbits(16),
                                                   bench.random.randrange(0xBA00, 0xBB00)]))
        bench.put(padded(bytes(bench.random.randint(0, 9)), bench.random.getrandbits(6)),
                  tunnel=False, net=net)
    await bench.finish()


@cocotb.test()
async def inner_packets(dut):
    """What an SA in tunnel mode may not carry; and TFC padding, which is cut."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    four, six = ip_packet(bench.random, False, 30), ip_packet(bench.random, True, 31)
    for skip, align in SKIPS.items():
        for next_header in range(256):
            bench.put(padded(four, next_header, align), skip=skip,
                      expect="out" if next_header == 4 else "Inner")
            bench.put(padded(six, next_header, align), skip=skip,
                      expect="out" if next_header == 41 else "Inner")
        for version in range(16):
            bench.put(padded(bytes([version << 4 | 5]) + four[1:], 4, align), skip=skip,
                      expect="out" if version == 4 else "Inner")
            bench.put(padded(bytes([version << 4]) + six[1:], 41, align), skip=skip,
                      expect="out" if version == 6 else "Inner")
        # Payload that is no whole header, or less than its length.
        for length in range(len(four)):
            bench.put(padded(four[:length], 4, align), skip=skip, expect="Inner")
        for length in range(len(six)):
            bench.put(padded(six[:length], 41, align), skip=skip, expect="Inner")
        for length in (0, 19, 51, 16384 + 50, 32768 + 50, 65535):
            bench.put(padded(four[:2] + struct.pack(">H", length) + four[4:], 4, align),
                      skip=skip, expect="Inner")
        for length in (32, 16384 + 31, 65535, 65496, 65497):
            bench.put(padded(six[:4] + struct.pack(">H", length) + six[6:], 41, align),
                      skip=skip, expect="Inner")
        for extra in (1, 2, 15, 16, 17, 40, 300):
            bench.put(padded(four + bytes(extra), 4, align), skip=skip, expect="out")
            bench.put(padded(six + bench.random.randbytes(extra), 41, align), skip=skip,
                      expect="out")
    bench.put(padded(bytes(20), 59, 4), tunnel=False, expect="Inner")
    await bench.finish()


@cocotb.test()
async def clear_packets(dut):
    """Clear packets pass unchanged, whatever else their header says."""
    bench = Bench(dut, 0.1, 0.1, (0, 40))
    await bench.start()
    for length in [*range(1, 81), 1500, 9000]:
        bench.put_clear(bench.random.randbytes(length))
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9])
async def mixed(dut, idle, stall):
    """Everything back to back."""
    bench = Bench(dut, idle, stall, (0, 12))
    await bench.start()
    for _ in range(200):
        rng = bench.random
        skip = rng.choice([0, 8, 16])
        v6, tunnel = rng.random() < 0.5, rng.random() < 0.6
        net = bench.net(rng.random() < 0.5, tos=rng.getrandbits(8))
        packet = ip_packet(rng, v6, rng.choice([0, 8, 30, 100, rng.randint(0, 300)]),
                           tos=rng.getrandbits(8))
        text = padded(packet, 41 if v6 else 4, SKIPS[skip], rng.choice([0, 0, 1, 3]))
        kind = rng.choice("good good good clear bits noise".split())
        if kind == "clear":
            bench.put_clear(packet)
            continue
        if kind == "bits":
            text = bytearray(text)
            text[rng.choice([rng.randrange(len(text)), -1, -2, -3])] ^= 1 << rng.randrange(8)
            text = bytes(text)
        elif kind == "noise":
            text = rng.randbytes(SKIPS[skip] * rng.randint(1, 12))
            if rng.random() < 0.5:
                text = text[:-2] + bytes([0, rng.choice([4, 41])])
        bench.put(text, tunnel=tunnel, net=net, skip=skip)
    await bench.finish()


@cocotb.test()
async def fuzz(dut):
    """Random text with small pad lengths, so that many trailers are right by chance."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    for _ in range(1500):
        rng = bench.random
        skip = rng.choice([0, 8, 16])
        align = SKIPS[skip]
        text = bytearray(rng.choices(range(4), k=align * rng.randint(1, 40 // align)))
        text[-2] = rng.choice([0, 1, 1, 2, 3, 14])
        text[-1] = rng.choice([4, 41, 59, 6])
        if rng.random() < 0.7:
            text[0] = rng.choice([0x45, 0x60, 0x00])
        bench.put(bytes(text), tunnel=rng.random() < 0.5, net=bench.net(rng.random() < 0.5),
                  skip=skip)
    await bench.finish()


@cocotb.test()
async def cycles(dut):
    """A cycle a beat in tunnel mode, one more behind a block of 8 bytes, four more at most in
    transport mode."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    for inner in (64, 1500):
        for tunnel, skip, more in ((True, 0, 0), (True, 16, 0), (True, 8, 1), (False, 0, 4),
                                   (False, 16, 4)):
            packet = ip_packet(bench.random, False, inner - 20)
            text = padded(packet, 4, SKIPS[skip])
            begin, first = len(bench.source.taken), len(bench.sink.items)
            for _ in range(12):
                bench.put(text, tunnel=tunnel, skip=skip, expect="out")
            await bench.finish()
            beats = len(beat.beats(bytes(skip) + text))
            times, taken = bench.sink.times[first:], bench.source.taken[begin:]
            dut._log.info("%d bytes, tunnel %d, skip %d: %d beats, 12 packets leave in %d cycles, "
                          "first out %d after the end", inner, tunnel, skip, beats,
                          times[-1] - times[0] + 1, times[0] - taken[beats - 1])
            assert times[-1] - times[0] + 1 <= 12 * (beats + more)
            assert times[0] - taken[beats - 1] <= 7
