"""Bench for encapsulation: every payload length, mode and cipher against the model; drops; cycles."""

import random

import beat
import cocotb
import esp
from cocotb.triggers import FallingEdge, ReadOnly
from sad_port import SadPort
from stream import Sink, Source, start, wait_for

RNG = random.Random(11)
DROPS = {number: name for name, number in esp.LAYOUT.constants.items() if name.startswith("Drop")}
V4, V6 = RNG.randbytes(4), RNG.randbytes(16)

# Version of the packet, tunnel or transport, version of the outer header.
MODES = [(4, True, 4), (4, True, 6), (6, True, 4), (6, True, 6), (4, False, 4), (6, False, 6)]
SUITES = [("CipherAesCbc", 16, "AuthSha1"), ("CipherAesCbc", 24, "AuthSha256"),
          ("CipherAesCbc", 32, "AuthSha1"), ("CipherAesGcm", 16, "AuthNone"),
          ("CipherAesGcm", 32, "AuthNone"), ("CipherDes", 8, "AuthSha1"),
          ("Cipher3Des", 24, "AuthSha256")]


def association(mode, suite, esn, **more):
    """An SA with random keys and addresses."""
    cipher, key_bytes, auth = suite
    _, tunnel, outer = mode
    size = 4 if outer == 4 else 16
    return esp.Sa(
        cipher=cipher, key=RNG.randbytes(key_bytes), auth=auth, auth_key=RNG.randbytes(20),
        salt=RNG.randbytes(4), iv_salt=RNG.getrandbits(64), spi=RNG.getrandbits(32), tunnel=tunnel,
        src=RNG.randbytes(size), dst=RNG.randbytes(size), esn=esn, hop_limit=RNG.randint(1, 255),
        **{"copy_df": RNG.random() < 0.5} | more)


SAS = {(mode, suite, esn): association(mode, suite, esn)
       for mode in MODES for suite in SUITES for esn in (False, True)}


class Bench:
    """The module between a source, the SAD and a sink; collects drops."""

    def __init__(self, dut, idle, stall, delay=lambda: 1, sad_idle=0.0):
        self.dut = dut
        self.source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                             {"beat": dut.in_beat_i, "hdr": dut.in_hdr_i}, idle)
        self.sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                         {"beat": dut.out_beat_o, "hdr": dut.out_hdr_o}, stall)
        self.sad = SadPort(dut, delay, sad_idle)
        self.want, self.hdrs, self.want_drops, self.drops = [], [], [], []

    async def start(self):
        await start(self.dut)
        for runner in (self.source, self.sink, self.sad):
            cocotb.start_soon(runner.run())
        cocotb.start_soon(self._watch_drops())

    async def _watch_drops(self):
        while True:
            await FallingEdge(self.dut.clk_i)
            await ReadOnly()
            if int(self.dut.drop_valid_o.value):
                self.drops.append(DROPS[int(self.dut.drop_reason_o.value)])

    def put(self, packet, sa, number=None, drop=None, told=None, valid=True):
        """Offers a packet. `drop`: why it must be dropped; `told`: what the SAD says."""
        rng = self.source.random
        number = rng.getrandbits(64 if sa.esn else 32) if number is None else number
        index, low = rng.getrandbits(10), rng.getrandbits(1)
        hdr = esp.policy_hdr(packet, index, low)
        for i, value in enumerate(beat.beats(packet)):
            noise = rng.getrandbits(esp.LAYOUT.widths["policy_hdr_t"])
            self.source.put({"beat": value, "hdr": noise if i else hdr})
        self.sad.expect(
            {"op": "SadSend", "sa": index, "bytes": len(packet),
             "payload": len(packet) - esp.header_bytes(packet)},
            {"drop": told or 0, "sa": index, "number": number, "iv": sa.iv(number),
             "data": sa.record() | {"valid": valid, "next": rng.getrandbits(10)}})
        if drop:
            self.want_drops.append(drop)
        else:
            sealed = esp.seal(sa, packet, number, low)
            self.want.append(sealed.plain)
            self.hdrs.append(sealed.seal_hdr)

    async def check(self, limit=400_000):
        counts = [len(beat.beats(p)) for p in self.want]
        await wait_for(self.dut.clk_i, lambda: len(self.sink.items) == sum(counts) and
                       len(self.drops) == len(self.want_drops), limit)
        got = beat.packets([i["beat"] for i in self.sink.items])
        place = 0
        for number, (have, want, hdr, n) in enumerate(
                zip(got, self.want, self.hdrs, counts, strict=True)):
            assert have == want, f"packet {number} of {len(want)} bytes"
            for item in self.sink.items[place : place + n]:
                if item["hdr"] != hdr:
                    unpack = esp.LAYOUT.unpack
                    raise AssertionError(f"packet {number}: {unpack('seal_hdr_t', item['hdr'])}, "
                                         f"not {unpack('seal_hdr_t', hdr)}")
            place += n
        assert self.drops == self.want_drops


@cocotb.test()
@cocotb.parametrize(
    (("idle", "stall", "turn"), [(0.0, 0.0, 0), (0.4, 0.0, 2), (0.0, 0.4, 4), (0.3, 0.3, 6)]))
async def every_length(dut, idle, stall, turn):
    """Payloads of 1 to 200 bytes and around 1500 in every mode; the suites take turns, so that in
    the four runs each length meets each alignment. SAD answers come early and late."""
    rng = random.Random(turn)
    bench = Bench(dut, idle, stall, lambda: rng.choice([1, 1, 2, 7, 25]), idle)
    await bench.start()
    for length in [*range(1, 201), *range(1495, 1505)]:
        for place, mode in enumerate(MODES):
            suite = SUITES[(length + place + turn) % len(SUITES)]
            sa = SAS[mode, suite, bench.source.random.random() < 0.5]
            header = 20 if mode[0] == 4 else 40
            # In a tunnel the IP header is payload.
            total = max(length, header) if mode[1] else header + length
            bench.put(esp.ip_packet(bench.source.random, mode[0], total), sa)
    await bench.check()


@cocotb.test()
async def long_packets(dut):
    """Around 9000 bytes, and up to the longest packet that may leave; one byte more is dropped."""
    bench = Bench(dut, 0.0, 0.2)
    await bench.start()
    for suite in (SUITES[1], SUITES[3], SUITES[5]):
        for mode in (MODES[0], MODES[3], MODES[4]):
            sa = SAS[mode, suite, True]
            header = 20 if mode[0] == 4 else 40
            bench.put(esp.ip_packet(bench.source.random, mode[0], 9000), sa)
            around = (20 if mode[2] == 4 else 40) + 8 + (sa.block or 8) + sa.icv_bytes
            payload = (9216 - around) // sa.align * sa.align - 2
            total = payload if mode[1] else header + payload
            bench.put(esp.ip_packet(bench.source.random, mode[0], total), sa)
            assert len(bench.want[-1]) <= 9216
            bench.put(esp.ip_packet(bench.source.random, mode[0], total + 1), sa,
                      drop="DropTooLong")
            bench.put(esp.ip_packet(bench.source.random, mode[0], 64), sa)
    await bench.check()


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.6])
async def drops(dut, idle, stall):
    """Every reason, among packets that pass: nothing of a dropped packet shows."""
    rng = random.Random(3)
    bench = Bench(dut, idle, stall, lambda: rng.choice([1, 4]))
    await bench.start()
    t44, t66, tr4, tr6 = MODES[0], MODES[3], MODES[4], MODES[5]

    def plain(version=4, total=100, **more):
        return esp.ip_packet(rng, version, total, **more)

    def options(packet, words):
        """IPv4 with `words` words of options."""
        return bytes([0x45 + words]) + packet[1:]

    cases = []
    for told in ("DropNoSa", "DropHardLimit", "DropNumbers"):
        cases += [(plain(), SAS[t44, SUITES[0], False], told, {"told": told})]
    cases += [
        (plain(), SAS[t44, SUITES[0], False], "DropNoSa", {"valid": False}),
        # Ciphers that are not built in, or are without integrity, or with it twice.
        (plain(), association(t44, ("CipherDesEcb", 8, "AuthSha1"), False), "DropUnsupported", {}),
        (plain(), association(t44, ("CipherAesCbc", 16, "AuthNone"), False), "DropUnsupported", {}),
        (plain(), association(t44, ("Cipher3Des", 24, "AuthNone"), False), "DropUnsupported", {}),
        (plain(), association(t44, ("CipherAesGcm", 16, "AuthSha1"), False), "DropUnsupported", {}),
        # Transport mode: options, extension headers, fragments, nothing inside, wrong version.
        (options(plain(), 1), SAS[tr4, SUITES[0], True], "DropUnsupported", {}),
        (plain(total=20), SAS[tr4, SUITES[0], True], "DropUnsupported", {}),
        (plain(6, 40), SAS[tr6, SUITES[0], True], "DropUnsupported", {}),
        (plain(6, proto=0), SAS[tr6, SUITES[3], True], "DropUnsupported", {}),
        (plain(6, proto=43), SAS[tr6, SUITES[3], True], "DropUnsupported", {}),
        (plain(6, proto=60), SAS[tr6, SUITES[3], True], "DropUnsupported", {}),
        (plain(6, proto=44), SAS[tr6, SUITES[3], True], "DropFragment", {}),
        (plain(fragment=1), SAS[tr4, SUITES[3], True], "DropFragment", {}),
        (plain(fragment=0x1000), SAS[tr4, SUITES[3], True], "DropFragment", {}),
        (plain(fragment=0x2000), SAS[tr4, SUITES[3], True], "DropFragment", {}),
        (plain(6), SAS[tr4, SUITES[5], True], "DropInner", {}),
        (plain(4), SAS[tr6, SUITES[5], True], "DropInner", {}),
        (plain(total=9216), SAS[t44, SUITES[0], True], "DropTooLong", {}),
    ]
    # In a tunnel none of this matters.
    passing = [
        (options(plain(), 3), SAS[t44, SUITES[0], True]), (plain(total=20), SAS[t44, SUITES[3], True]),
        (plain(6, 40), SAS[t66, SUITES[3], True]), (plain(6, proto=0), SAS[t66, SUITES[5], True]),
        (plain(6, proto=44), SAS[t66, SUITES[0], True]),
        (plain(fragment=0x2001), SAS[t44, SUITES[6], True]),
    ]
    for round_ in range(2):
        rng.shuffle(cases)
        for number, (packet, sa, drop, more) in enumerate(cases):
            bench.put(packet, sa, drop=drop, **more)
            if round_ or number % 3 == 0:
                bench.put(*passing[number % len(passing)])
    await bench.check()


@cocotb.test()
async def outer_header(dut):
    """DF and identification: all four cases of inner DF and copy_df, IPv6 inside; numbers of 32 and
    64 bits."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    for copy_df in (False, True):
        for df in (False, True):
            for version in (4, 6):
                for number in (1, 0xFFFF, 0x10000, 0xFFFFFFFF, 0x1_0000_0000, 2**64 - 1):
                    sa = association((version, True, 4), SUITES[3], True, copy_df=copy_df)
                    packet = esp.ip_packet(bench.source.random, version, 80, df=df)
                    bench.put(packet, sa, number)
                    net = esp.LAYOUT.unpack("seal_hdr_t", bench.hdrs[-1])["frame"]["net"]
                    flags = net >> 264 & 0xFF  # byte 6
                    assert flags == (0 if copy_df and version == 4 and not df else 0x40)
    await bench.check()


@cocotb.test()
@cocotb.parametrize(suite=[0, 3, 5], mode=[0, 3, 4, 5])
async def cycles(dut, suite, mode):
    """64-byte packets with immediate answers: one in 5 cycles, or in as many as it has beats at
    the output; 7 cycles to the first beat, 9 and 10 where the IP header comes off first."""
    bench = Bench(dut, 0.0, 0.0)
    await bench.start()
    sa = SAS[MODES[mode], SUITES[suite], False]
    for _ in range(20):
        bench.put(esp.ip_packet(bench.source.random, MODES[mode][0], 64), sa)
    await bench.check()
    beats = len(beat.beats(bench.want[0]))
    ends = bench.sink.times[beats - 1 :: beats]
    gaps = [b - a for a, b in zip(ends, ends[1:])]
    latency = bench.sink.times[0] - bench.source.taken[0]
    dut._log.info("%s: %d beats, one packet in %s cycles, latency %d", SUITES[suite][0], beats,
                  sorted(set(gaps)), latency)
    assert latency == (7 if MODES[mode][1] else 9 if MODES[mode][0] == 4 else 10)
    assert max(gaps) <= max(5, beats)


@cocotb.test()
async def full_rate(dut):
    """Long packets in a row leave without a gap."""
    bench = Bench(dut, 0.0, 0.0, lambda: 12)
    await bench.start()
    for mode in (MODES[0], MODES[4]):
        for suite in (SUITES[0], SUITES[3]):
            bench.put(esp.ip_packet(bench.source.random, 4, 1500), SAS[mode, suite, False])
    await bench.check()
    beats = len(bench.sink.times)
    assert bench.sink.times[-1] - bench.sink.times[0] <= beats - 1 + 2 * 3
