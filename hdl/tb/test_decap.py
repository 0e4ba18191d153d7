"""Bench for the outer header and the SA of inbound packets, against a model that reads a packet as
RFC 791, RFC 8200 and RFC 4303 say.
"""

import os
import random
import struct

import beat
import cocotb
import gcm
from cocotb.triggers import RisingEdge
from open_model import (AES_CBC, DES, DES_ECB, DROP, ESP, FIND, GCM, IP_INFO, NONE, OPEN, SHA1,
                        SHA256, TDES, OpenSa, checksum, ip_header, ip_info, ip_packet, open_hdr)
from open_sad import Drops, OpenSad
from stream import Sink, Source, start, wait_for

MAX_BYTES = 9216

# What the gateway is built with: bit n stands for cipher_e or auth_e n.
CIPHERS = int(os.environ.get("CV_Ciphers", "5'b11111")[3:], 2)
AUTHS = int(os.environ.get("CV_Auths", "3'b111")[3:], 2)

ALL = [
    OpenSa(index=1, spi=0x101, cipher=AES_CBC, auth=SHA1),
    OpenSa(index=2, spi=0x102, cipher=AES_CBC, auth=SHA256, v6=True, esn=True, key_bytes=32),
    OpenSa(index=3, spi=0x103, cipher=GCM, auth=NONE, key_bytes=32, tunnel=False),
    OpenSa(index=4, spi=0x104, cipher=GCM, auth=NONE, v6=True, esn=True),
    OpenSa(index=5, spi=0x105, cipher=DES, auth=SHA256, tunnel=False, v6=True),
    OpenSa(index=6, spi=0x106, cipher=TDES, auth=SHA1, esn=True),
    OpenSa(index=7, spi=0x107, cipher=DES_ECB, auth=SHA1),
]
SAS = [sa for sa in ALL if CIPHERS >> sa.cipher & 1 and AUTHS >> sa.auth & 1]
FORBIDDEN = [sa for sa in ALL if sa not in SAS] + [
    OpenSa(index=8, spi=0x108, cipher=AES_CBC, auth=NONE),
    OpenSa(index=9, spi=0x109, cipher=GCM, auth=SHA1),
]
FOUR, SIX = (next(sa for sa in SAS if sa.v6 == v6) for v6 in (False, True))
LANE = next(sa for sa in SAS if sa.cipher == GCM and not sa.v6)
HIGH = 0x89ABCDEF


def number_of(sa, seq):
    """What the SAD makes of 32 bits of a number."""
    return HIGH << 32 | seq if sa.esn else seq


def model(packet, sad):
    """What must become of a packet: ("out", hdr, data, clear), or the name of a drop reason."""
    version = packet[0] >> 4
    if version == 4:
        size = (packet[0] & 15) * 4
        if size < 20 or len(packet) < size or struct.unpack(">H", packet[2:4])[0] < size:
            return "Header"
        if checksum(packet[:size]):
            return "Header"
        total = struct.unpack(">H", packet[2:4])[0]
        proto = packet[9]
        is_fragment = struct.unpack(">H", packet[6:8])[0] & 0x3FFF != 0
        dst = packet[16:20]
    elif version == 6:
        size = 40
        if len(packet) < size:
            return "Header"
        total = 40 + struct.unpack(">H", packet[4:6])[0]
        proto = packet[6]
        is_fragment = proto == 44 and len(packet) > 40 and packet[40] == ESP
        proto = ESP if is_fragment else proto
        dst = packet[24:40]
    else:
        return "Header"
    if proto == ESP and size > 40:
        return "Header"
    if len(packet) > MAX_BYTES or total != len(packet):
        return "TooLong"
    if proto != ESP:
        return "out", OPEN.pack(ip=IP_INFO.pack(**ip_info(packet, len(packet)))), packet, 1
    if is_fragment:
        return "Fragment"
    if len(packet) < size + 8:
        return "Short"
    spi, seq = struct.unpack(">II", packet[size:size + 8])
    sa = sad.sas.get((int(version == 6), int.from_bytes(dst.ljust(16, b"\0"), "big"), spi))
    if sa is None:
        return "NoSa"
    if sa in FORBIDDEN:
        return "Unsupported"
    data = packet[size + 8:]
    text = len(data) - sa.iv_bytes - sa.icv_bytes
    if text <= 0 or text % sa.block:
        return "Short"
    iv = bytes(8)
    if sa.cipher == GCM:
        iv, data = data[:8], data[8:]
    return "out", open_hdr(sa, number_of(sa, seq), packet[:size], iv, len(data), len(packet)), data, 0


class Bench:
    def __init__(self, dut, idle, stall, delay=(0, 6)):
        self.dut = dut
        self.source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o, {"beat": dut.in_beat_i},
                             idle)
        self.sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                         {"beat": dut.out_beat_o, "hdr": dut.out_hdr_o, "clear": dut.out_clear_o},
                         stall)
        self.sad = OpenSad(dut, SAS + FORBIDDEN, delay=delay)
        self.sad.number = number_of
        self.drops = Drops(dut)
        self.random = random.Random(5)
        self.want, self.want_drops = [], []

    async def start(self):
        await start(self.dut)
        for runner in (self.source, self.sink, self.sad, self.drops):
            cocotb.start_soon(runner.run())

    def esp(self, sa, text_bytes, seq=None, tail=b"", **more):
        """A packet of an SA with random contents; the number of bytes need not be right."""
        seq = self.random.getrandbits(32) if seq is None else seq
        body = struct.pack(">II", sa.spi, seq) + self.random.randbytes(
            max(sa.iv_bytes + text_bytes + sa.icv_bytes, 0))
        return ip_header(sa.v6, sa.src, sa.dst, ESP, len(body), tos=self.random.getrandbits(8),
                         **more) + body + tail

    def put(self, packet, expect=None):
        """Offers a packet; `expect` is "out" or a drop reason, where a test knows it without the
        model."""
        outcome = model(packet, self.sad)
        kind = outcome if isinstance(outcome, str) else "out"
        assert expect is None or kind == expect, f"the model says {kind}, the test {expect}"
        if kind == "out":
            self.want.append(outcome[1:])
        else:
            self.want_drops.append(DROP[kind])
        for value in beat.beats(packet):
            self.source.put({"beat": value})

    async def finish(self, limit=300000):
        beats = sum(len(beat.beats(data)) for _, data, _ in self.want)
        await wait_for(self.dut.clk_i, lambda: len(self.sink.items) >= beats and
                       len(self.drops.reasons) >= len(self.want_drops) and
                       not self.source.queue, limit)
        for _ in range(50):
            await RisingEdge(self.dut.clk_i)
        got = beat.packets([i["beat"] for i in self.sink.items])
        assert len(got) == len(self.want)
        firsts = 0
        for packet, (hdr, data, clear) in zip(got, self.want):
            assert packet == data
            for item in self.sink.items[firsts:firsts + len(beat.beats(data))]:
                assert item["clear"] == clear
                assert OPEN.unpack(item["hdr"]) == OPEN.unpack(hdr)
            firsts += len(beat.beats(data))
        assert self.drops.reasons == self.want_drops
        assert all(r["op"] == FIND for r in self.sad.requests)


@cocotb.test()
async def every_length(dut):
    """Text of 1 to 200 bytes in each SA: whole blocks pass, others are too short or long for them;
    then packets of about 1500 and 9000 bytes."""
    bench = Bench(dut, 0.0, 0.0, (0, 0))
    await bench.start()
    for sa in SAS:
        for length in [*range(-sa.iv_bytes - sa.icv_bytes - 1, 201 if sa.index < 4 else 64),
                       1440, 1472, 1504, 8960, 9008]:
            whole = length > 0 and length % sa.block == 0
            bench.put(bench.esp(sa, length), "out" if whole else "Short")
    await bench.finish()


@cocotb.test()
@cocotb.parametrize(sa=list(range(len(SAS))))
async def truncated(dut, sa):
    """A frame that ends too early anywhere, and one with bytes behind its IP length: dropped. A
    packet that is as short as it says: judged by its SA. Whole ones between them pass."""
    bench = Bench(dut, 0.0, 0.0, (0, 0))
    await bench.start()
    sa = SAS[sa]
    whole = bench.esp(sa, 48)
    header = 40 if sa.v6 else 20
    for length in range(1, len(whole)):
        bench.put(whole[:length], "Header" if length < header else "TooLong")
        if length % 7 == 0:
            bench.put(bench.esp(sa, 16), "out")
    for extra in range(1, 50):
        bench.put(bench.esp(sa, 16, tail=bytes(extra)), "TooLong")
    for length in range(len(whole) - header):
        body = whole[header:header + length]
        bench.put(ip_header(sa.v6, sa.src, sa.dst, ESP, length) + body)
    bench.put(whole, "out")
    await bench.finish()


@cocotb.test()
async def lengths_that_lie(dut):
    """IP lengths of all sizes on one packet, also below the header and beyond 16383."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    for sa in (FOUR, SIX):
        true = len(bench.esp(sa, 32)) - (40 if sa.v6 else 0)
        for length in [*range(0, 64), true - 1, true + 1, true + 16, true + 16384, true + 32768,
                       0x3FFF, 0x7FFF, 0xFFFF]:
            bench.put(bench.esp(sa, 32, length=length))
        bench.put(bench.esp(sa, 32), "out")
    assert bench.want_drops.count(DROP["TooLong"]) > 80
    await bench.finish()


@cocotb.test()
async def too_long(dut):
    """Packets over MaxBytes are swallowed, whatever their length; what follows is unharmed."""
    bench = Bench(dut, 0.0, 0.3)
    await bench.start()
    largest = bench.esp(FOUR, 9216 - 20 - 8 - 16 - 12 - 8)
    assert len(largest) == 9208
    bench.put(largest, "out")
    bench.put(ip_packet(bench.random, False, MAX_BYTES - 20), "out")
    for length in (MAX_BYTES + 1, MAX_BYTES + 16, MAX_BYTES + 17, 12000, 16384 + 100, 30000):
        bench.put(ip_packet(bench.random, False, length - 20), "TooLong")
        bench.put(bench.esp(LANE, 64), "out")
    bench.put(ip_header(False, FOUR.src, FOUR.dst, ESP, 12000) + bytes(12000), "TooLong")
    bench.put(bench.esp(FOUR, 32), "out")
    await bench.finish()


@cocotb.test()
async def options(dut):
    """IPv4 options of every length; in front of ESP 20 bytes are the most. Wrong checksums."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    for words in range(11):
        extra = bench.random.randbytes(4 * words)
        for sa in SAS:
            if sa.v6:
                continue
            bench.put(bench.esp(sa, 32, options=extra), "out" if words <= 5 else "Header")
        plain = ip_packet(bench.random, False, 30, options=extra)
        bench.put(plain, "out")
        for place in range(0, 20 + 4 * words):
            bad = bytearray(plain if words % 2 else bench.esp(FOUR, 16, options=extra))
            bad[place] ^= 1 << bench.random.randrange(8)
            bench.put(bytes(bad), None if place == 0 or place in (2, 3) else "Header")
    await bench.finish()


@cocotb.test()
async def clear_packets(dut):
    """Everything without ESP behind the IP header passes as it is, fragments too."""
    bench = Bench(dut, 0.1, 0.1)
    await bench.start()
    for length in range(1, 101):
        bench.put(ip_packet(bench.random, length % 2 == 0, length, proto=6), "out")
    bench.put(ip_packet(bench.random, False, 0), "out")
    bench.put(ip_packet(bench.random, True, 0), "out")
    bench.put(ip_packet(bench.random, False, 80, fragment=0x2000), "out")
    bench.put(ip_packet(bench.random, False, 80, fragment=0x0010, tos=255, df=False), "out")
    for proto in (0, 43, 44, 60, 4, 41, 51):
        bench.put(ip_packet(bench.random, True, 80, proto=proto), None)
    await bench.finish()
    assert bench.sad.requests == [], "the SAD was asked for a clear packet"


@cocotb.test()
async def drop_reasons(dut):
    """Each reason that this module has, its own and the SAD's."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    sa, six = FOUR, SIX
    bench.put(b"\x35" + bench.esp(sa, 16)[1:], "Header")
    bench.put(bench.esp(sa, 16, tail=b"x"), "TooLong")
    for fragment in (0x2000, 0x0001, 0x1FFF, 0x3FFF):
        bench.put(bench.esp(sa, 16, fragment=fragment, df=False), "Fragment")
    atomic = bytes([ESP, 0, 0, 0, 0, 0, 0, 1]) + bench.esp(six, 16)[40:]
    bench.put(ip_header(True, six.src, six.dst, 44, len(atomic)) + atomic, "Fragment")
    bench.put(bench.esp(OpenSa(spi=0x999, dst=sa.dst), 16), "NoSa")
    bench.put(bench.esp(OpenSa(spi=sa.spi, dst=bytes(4)), 16), "NoSa")
    # The same bytes as an IPv6 address are another SA's.
    bench.put(bench.esp(OpenSa(spi=sa.spi, v6=True, dst=sa.dst + bytes(12)), 16), "NoSa")
    bench.put(ip_header(False, sa.src, sa.dst, ESP, 7) + bytes(7), "Short")
    for other in FORBIDDEN:
        bench.put(bench.esp(other, 32), "Unsupported")
    bench.put(bench.esp(sa, 24), "Short")
    bench.put(bench.esp(sa, 32), "out")
    await bench.finish()

    bench.sad.find = lambda req: {"drop": req["seq"], "data": sa.packed(), "sa": sa.index}
    for name in ("NoSa", "HardLimit", "ReplayLate", "Replay"):
        for value in beat.beats(bench.esp(sa, 32, seq=DROP[name])):
            bench.source.put({"beat": value})
        bench.want_drops.append(DROP[name])
    await bench.finish()
    # What a faulty SAD might say of another version's or an empty record.
    broken = SIX.packed(), 0
    bench.sad.find = lambda req: {"drop": 0, "data": broken[req["seq"]], "sa": 1}
    for seq in (0, 1):
        for value in beat.beats(bench.esp(sa, 32, seq=seq)):
            bench.source.put({"beat": value})
        bench.want_drops.append(DROP["NoSa"])
    await bench.finish()


@cocotb.test()
async def requests(dut):
    """What the SAD is asked: version, destination, SPI, number, once a packet."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    want = []
    for seq in (1, 0x80000000, 0xFFFFFFFF):
        for sa in SAS:
            bench.put(bench.esp(sa, 32, seq=seq), "out")
            want.append((int(sa.v6), int.from_bytes(sa.dst.ljust(16, b"\0"), "big"), sa.spi, seq))
    await bench.finish()
    assert [(r["v6"], r["dst"], r["spi"], r["seq"]) for r in bench.sad.requests] == want


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9], delay=[(0, 0), (0, 30)])
async def mixed(dut, idle, stall, delay):
    """Good, truncated, changed and random packets back to back."""
    bench = Bench(dut, idle, stall, delay)
    await bench.start()
    for _ in range(120):
        rng = bench.random
        sa = rng.choice(SAS + FORBIDDEN)
        packet = bench.esp(sa, sa.block * rng.choice([1, 2, 5, 10, 60 // sa.block]),
                           options=b"" if sa.v6 or rng.random() < 0.8 else rng.randbytes(8))
        kind = rng.choice("good good good clear short bits noise header long".split())
        header = 40 if sa.v6 else 20
        if kind == "clear":
            packet = ip_packet(rng, sa.v6, rng.randint(0, 150))
        elif kind == "short":
            packet = packet[:rng.randint(1, len(packet))]
        elif kind == "long":
            packet += rng.randbytes(rng.randint(1, 40))
        elif kind == "bits":
            packet = bytearray(packet)
            packet[rng.randrange(min(64, len(packet)))] ^= 1 << rng.randrange(8)
            packet = bytes(packet)
        elif kind == "noise":
            packet = ip_header(sa.v6, sa.src, sa.dst, ESP, size := rng.randint(0, 120)) \
                + rng.randbytes(size)
        elif kind == "header":
            packet = bytes([packet[0]]) + rng.randbytes(header - 1) + packet[header:]
        bench.put(packet)
    await bench.finish()


@cocotb.test()
async def fuzz(dut):
    """Random bytes behind a right outer header that names a known SA, and random bytes alone."""
    bench = Bench(dut, 0.0, 0.0, (0, 0))
    await bench.start()
    for _ in range(400):
        rng = bench.random
        sa = rng.choice(SAS)
        size = rng.randint(0, 90)
        body = (struct.pack(">I", sa.spi) + rng.randbytes(90))[:size]
        bench.put(ip_header(sa.v6, sa.src, sa.dst, ESP, size) + body)
        bench.put(bytes([rng.choice([0x45, 0x60, 0x4F, 0x00, 0xFF, 0x44])])
                  + rng.randbytes(rng.randint(0, 90)))
    await bench.finish()


@cocotb.test()
async def cycles(dut):
    """As many cycles as a packet has beats, while the SAD answers within them."""
    bench = Bench(dut, 0.0, 0.0, (0, 0))
    await bench.start()
    for inner in (64, 1500):
        sa = LANE
        packet = bench.esp(sa, (inner + 2 + 3) // 4 * 4)
        begin, beats = len(bench.source.taken), len(beat.beats(packet))
        first = len(bench.sink.items)
        for _ in range(12):
            bench.put(packet, "out")
        await bench.finish()
        taken = bench.source.taken[begin:]
        dut._log.info("%d bytes inside, %d beats: %d cycles for 12, first out %d after the end",
                      inner, beats, taken[-1] - taken[0] + 1,
                      bench.sink.times[first] - taken[beats - 1])
        assert taken[-1] - taken[0] + 1 <= 12 * beats
        # 36 bytes of headers: two whole beats, and a part of the third.
        assert bench.sink.times[first] - taken[beats - 1] <= 6
