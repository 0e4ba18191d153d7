"""Bench for a whole inbound lane: real ESP packets in, the packets that their sender protected out,
and of everything else nothing but drop reasons.

The lane's SAs are in both modes, of both versions, with and without ESN and of every key length.
"""

import os
import random

import beat
import cocotb
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from open_model import (ACCEPT, AES_CBC, CLEAR, COUNT, DROPS, GCM, NONE, OpenSa, checksum, esp_packet,
                        ip_header, ip_packet)
from open_sad import OpenSad
from stream import Sink, Source, start, wait_for

AUTH = int(os.environ["CV_Auth"][-1])
CIPHER = GCM if AUTH == NONE else AES_CBC
HIGH = 0x76543210


class Lane:
    def __init__(self, dut, idle, stall, delay=(0, 6), seed=6):
        self.dut, self.random = dut, random.Random(seed)
        self.sas = [
            OpenSa(index=20 + i, spi=0x5000 + i, cipher=CIPHER, auth=AUTH, tunnel=tunnel, v6=v6,
                   esn=esn, key_bytes=key_bytes)
            for i, (tunnel, v6, esn, key_bytes) in enumerate(
                [(True, False, False, 16), (True, True, True, 24), (False, False, True, 32),
                 (False, True, False, 16)])]
        self.next = {sa.index: 1 for sa in self.sas}
        self.source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o, {"beat": dut.in_beat_i},
                             idle)
        self.sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                         {"beat": dut.out_beat_o, "hdr": dut.out_hdr_o}, stall)
        self.sad = OpenSad(dut, self.sas, clients=3, delay=delay)
        self.sad.number = lambda sa, seq: HIGH << 32 | seq if sa.esn else seq
        self.drops, self.clear, self.want_counts = [], 0, []
        self.want, self.want_drops, self.want_accepts, self.want_clear = [], [], [], 0

    async def watch(self):
        dut = self.dut
        while True:
            await FallingEdge(dut.clk_i)
            await ReadOnly()
            self.clear += int(dut.clear_o.value)
            valid, reason = int(dut.drop_valid_o.value), int(dut.drop_reason_o.value)
            for lane in range(3):
                if valid >> lane & 1:
                    self.drops.append((lane, DROPS[reason >> 5 * lane & 31]))

    async def start(self):
        await start(self.dut)
        for runner in (self.source.run, self.sink.run, self.sad.run, self.watch):
            cocotb.start_soon(runner())

    def number(self, sa):
        low = self.next[sa.index]
        self.next[sa.index] += 1
        return HIGH << 32 | low if sa.esn else low

    def make(self, sa, length, number=None, text=None, **more):
        """A packet of an SA with `length` bytes of payload: its number, the bytes that count, what is
        sent, and what must come out."""
        number = self.number(sa) if number is None else number
        inner = ip_packet(self.random, self.random.random() < 0.5, length, tos=1, **more)
        if sa.tunnel:
            payload, proto = inner, 41 if inner[0] >> 4 == 6 else 4
        else:
            payload, proto = self.random.randbytes(length), 17
        text = text or sa.text(payload, proto, self.random.choice([0, 0, 0, 1, 2]))
        packet = esp_packet(sa, number, text, self.random.randbytes(sa.iv_bytes), ident=number & 255)
        if not sa.tunnel:
            inner = ip_header(sa.v6, sa.src, sa.dst, proto, length, ident=number & 255) + payload
        return number, len(text) - 2 - text[-2], packet, inner

    def send(self, packet):
        for value in beat.beats(packet):
            self.source.put({"beat": value})

    def put(self, sa, length, **more):
        """A good packet."""
        number, payload_bytes, packet, inner = self.make(sa, length, **more)
        self.send(packet)
        self.expect(sa, number, payload_bytes, inner)
        return number, packet

    def expect(self, sa, number, payload_bytes, inner):
        self.want_accepts.append((sa.index, number >> 32, number & 0xFFFFFFFF))
        self.want_counts.append((sa.index, sa.spi, payload_bytes))
        self.want.append((CLEAR.pack(reqid=sa.reqid), inner))

    def put_bad(self, packet, lane, reason):
        self.send(packet)
        self.want_drops.append((lane, reason))

    def forge(self, packet, place, bits=1):
        packet = bytearray(packet)
        packet[place] ^= bits
        return bytes(packet)

    async def finish(self, limit=200000):
        beats = sum(len(beat.beats(p)) for _, p in self.want)
        await wait_for(self.dut.clk_i, lambda: len(self.sink.items) >= beats and
                       len(self.drops) >= len(self.want_drops) and not self.source.queue, limit)
        for _ in range(300):
            await RisingEdge(self.dut.clk_i)
        got = beat.packets([i["beat"] for i in self.sink.items])
        assert got == [p for _, p in self.want]
        assert all(p[0] >> 4 == 6 or checksum(p[:20]) == 0 for p in got)
        assert [i["hdr"] for i in self.sink.items] == [
            h for h, p in self.want for _ in beat.beats(p)]
        for lane in range(3):
            assert [r for n, r in self.drops if n == lane] == [
                r for n, r in self.want_drops if n == lane]
        accepts = [(r["sa"], r["high"], r["seq"]) for r in self.sad.requests if r["op"] == ACCEPT]
        assert accepts == self.want_accepts, "the SAD accepted what it must not have heard of"
        counts = [(r["sa"], r["spi"], r["bytes"]) for r in self.sad.requests if r["op"] == COUNT]
        assert counts == self.want_counts, "payloads that came out, and nothing else"
        assert self.clear == self.want_clear


@cocotb.test()
async def every_length(dut):
    """Payloads of 0 to 200 bytes, of about 1500 and of 9000, in the four SAs."""
    lane = Lane(dut, 0.0, 0.0)
    await lane.start()
    for length in [*range(201), 1430, 1472, 9000]:
        lane.put(lane.sas[length % 4], length)
    await lane.finish()


@cocotb.test()
@cocotb.parametrize(sa=[0, 1, 2, 3])
async def every_byte_wrong(dut, sa):
    """One packet with each byte behind the IP header changed in turn, the ICV's too: never shows,
    never reaches the SAD's windows; the right one does afterwards."""
    lane = Lane(dut, 0.0, 0.0, (0, 0))
    await lane.start()
    sa = lane.sas[sa]
    number, payload_bytes, packet, inner = lane.make(sa, 40)
    header = 40 if sa.v6 else 20
    for place in range(header, len(packet)):
        bad = lane.forge(packet, place, 1 << lane.random.randrange(8))
        # A changed SPI is another SA's, which does not exist.
        lane.put_bad(bad, *((0, "NoSa") if place < header + 4 else (1, "Integrity")))
        if place % 16 == 0:
            lane.put(sa, 16)
    lane.send(packet)
    lane.expect(sa, number, payload_bytes, inner)
    await lane.finish()


@cocotb.test()
async def truncated(dut):
    """A packet cut to every length, with an IP length that agrees: the ones that still look like
    whole blocks fail at their ICV, the others at their length; the next one passes."""
    lane = Lane(dut, 0.0, 0.0, (0, 0))
    await lane.start()
    for sa in lane.sas[:2]:
        number, payload_bytes, packet, inner = lane.make(sa, 64)
        header = 40 if sa.v6 else 20
        for length in range(len(packet) - header):
            text = length - 8 - sa.iv_bytes - sa.icv_bytes
            whole = text > 0 and text % sa.block == 0
            cut = ip_header(sa.v6, sa.src, sa.dst, 50, length) + packet[header:header + length]
            lane.put_bad(cut, *((1, "Integrity") if whole else (0, "Short")))
            if length % 10 == 0:
                lane.put(sa, 30)
        lane.send(packet)
        lane.expect(sa, number, payload_bytes, inner)
    await lane.finish()


@cocotb.test()
async def replays(dut):
    """Packets sent twice and three times, next to one another and far apart, leave once."""
    lane = Lane(dut, 0.0, 0.0)
    await lane.start()
    old = []
    for count in range(30):
        sa = lane.random.choice(lane.sas)
        number, packet = lane.put(sa, 20 + count)
        text = lane.want_accepts[-1]
        old.append((packet, text))
        for packet, text in (old[-1], lane.random.choice(old)):
            lane.put_bad(packet, 1, "Replay")
            lane.want_accepts.append(text)
    await lane.finish()


@cocotb.test()
async def authentic_but_wrong(dut):
    """What a peer with the right keys may still get wrong: padding, content. Accepted, not passed."""
    lane = Lane(dut, 0.0, 0.0)
    await lane.start()
    tunnel, transport = lane.sas[0], lane.sas[2]
    four = ip_packet(lane.random, False, 12)
    for sa, text, reason in (
            (tunnel, four + bytes(14) + b"\x0e\x04", "Padding"),
            (tunnel, bytes(46) + b"\x2f\x04", "Padding"),
            (transport, bytes(30) + b"\xff\x06", "Padding"),
            (tunnel, tunnel.text(four, 17), "Inner"),
            (tunnel, tunnel.text(four, 41), "Inner"),
            (tunnel, tunnel.text(four[:19], 4), "Inner"),
            (tunnel, tunnel.text(bytes(40), 59), "Inner"),
            (transport, transport.text(bytes(40), 59), "Inner")):
        number, payload_bytes, packet, _ = lane.make(sa, 0, text=text)
        lane.put_bad(packet, 2, reason)
        lane.want_accepts.append((sa.index, number >> 32, number & 0xFFFFFFFF))
        lane.put(sa, 33)
    await lane.finish()


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5, 0.9], delay=[(0, 0), (0, 30)])
async def mixed(dut, idle, stall, delay):
    """Everything back to back: good packets, forged, repeated, truncated, random and clear ones."""
    lane = Lane(dut, idle, stall, delay, seed=int(10 * (idle + stall)) + delay[1])
    await lane.start()
    old = []
    for _ in range(80):
        rng = lane.random
        sa = rng.choice(lane.sas)
        header = 40 if sa.v6 else 20
        size = rng.choice([0, 8, 20, 40, rng.randint(0, 200)])
        kind = rng.choice("good good good forged again noise cut clear header".split())
        if kind == "good":
            _, packet = lane.put(sa, size)
            old.append((packet, lane.want_accepts[-1]))
        elif kind == "forged":
            packet = lane.make(sa, size, number=7)[2]
            lane.put_bad(lane.forge(packet, rng.randrange(header + 4, len(packet))), 1, "Integrity")
        elif kind == "again" and old:
            packet, accept = rng.choice(old)
            lane.put_bad(packet, 1, "Replay")
            lane.want_accepts.append(accept)
        elif kind == "noise":
            body = sa.spi.to_bytes(4, "big") + rng.randbytes(rng.randint(4, 150))
            text = len(body) - 8 - sa.iv_bytes - sa.icv_bytes
            whole = text > 0 and text % sa.block == 0
            lane.put_bad(ip_header(sa.v6, sa.src, sa.dst, 50, len(body)) + body,
                         *((1, "Integrity") if whole else (0, "Short")))
        elif kind == "cut":
            packet = lane.make(sa, size, number=7)[2]
            lane.put_bad(packet[:rng.randrange(header, len(packet))], 0, "TooLong")
        elif kind == "clear":
            lane.send(ip_packet(rng, sa.v6, size))
            lane.want_clear += 1
        elif kind == "header":
            packet = lane.make(sa, size, number=7)[2]
            lane.put_bad(lane.forge(packet, 0, 0x80), 0, "Header")
    await lane.finish()
