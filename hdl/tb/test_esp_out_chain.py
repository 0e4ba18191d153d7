"""Bench for the outbound sections in a row: every length, the model's packet at the end, and scapy,
which opens a sample of them."""

import os
import random

import beat
import cocotb
import esp
from sad_port import SadPort
from scapy_esp import open_packet
from stream import Sink, Source, start, wait_for

CIPHER = int(os.environ["CV_Cipher"])
AUTH = {0: "AuthNone", 1: "AuthSha1", 2: "AuthSha256"}[int(os.environ["CV_Auth"][-1])]
SUITES = [
    [("CipherAesCbc", 16), ("CipherAesCbc", 24), ("CipherAesCbc", 32)],
    [("CipherDes", 8), ("Cipher3Des", 24)],
    [("CipherAesGcm", 16), ("CipherAesGcm", 24), ("CipherAesGcm", 32)],
][CIPHER]
# Version of the packet, tunnel or transport, version of the outer header.
MODES = [(4, True, 4), (4, True, 6), (6, True, 4), (6, True, 6), (4, False, 4), (6, False, 6)]
RNG = random.Random(41)


def association(mode, suite, esn):
    size = 4 if mode[2] == 4 else 16
    return esp.Sa(
        cipher=suite[0], key=RNG.randbytes(suite[1]), auth=AUTH, auth_key=RNG.randbytes(20),
        salt=RNG.randbytes(4), iv_salt=RNG.getrandbits(64), spi=RNG.getrandbits(32), tunnel=mode[1],
        src=RNG.randbytes(size), dst=RNG.randbytes(size), esn=esn,
        hop_limit=RNG.randint(1, 255), copy_df=True)


SAS = {(mode, suite, esn): association(mode, suite, esn)
       for mode in MODES for suite in SUITES for esn in (False, True)}


@cocotb.test()
@cocotb.parametrize((("idle", "stall", "long"), [(0.0, 0.0, True), (0.4, 0.0, False),
                                                 (0.0, 0.9, False)]))
async def every_length(dut, idle, stall, long):
    """Payloads of 1 to 200 bytes and around 1500 and 9000; modes, suites and ESN take turns. Every
    packet is the model's; scapy opens every fifth and finds the packet that went in."""
    rng = random.Random(43)
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "hdr": dut.in_hdr_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i, {"beat": dut.out_beat_o}, stall)
    sad = SadPort(dut, lambda: rng.choice([1, 3, 15]), idle)
    await start(dut)
    for runner in (source, sink, sad):
        cocotb.start_soon(runner.run())
    lengths = [*range(1, 201), *range(1497, 1503)] + ([8998, 9000, 9001] if long else [])
    sent = []
    for place, length in enumerate(lengths):
        mode = MODES[place % len(MODES)]
        suite = SUITES[place // len(MODES) % len(SUITES)]
        sa = SAS[mode, suite, rng.random() < 0.5]
        header = 20 if mode[0] == 4 else 40
        # What scapy opens carries a protocol that it leaves as it is (RFC 3692).
        proto = 253 if place % 5 == 0 or length > 1400 else None
        packet = esp.ip_packet(rng, mode[0], max(length, header) if mode[1] else header + length,
                               proto)
        number = rng.getrandbits(64 if sa.esn else 32)
        for value in beat.beats(packet):
            source.put({"beat": value, "hdr": esp.policy_hdr(packet, place)})
        sad.expect({"op": "SadSend", "sa": place, "bytes": len(packet),
                    "payload": len(packet) - esp.header_bytes(packet)},
                   {"sa": place, "number": number, "iv": sa.iv(number), "data": sa.record()})
        sent.append((sa, packet, number))
    want = [esp.seal(sa, packet, number).wire for sa, packet, number in sent]
    total = sum(len(beat.beats(p)) for p in want)
    # DES is served one packet in many: this chain waits for each.
    await wait_for(dut.clk_i, lambda: len(sink.items) == total, 600_000)
    got = beat.packets(sink.items)
    # The cipher keeps the order of packets, so everything leaves as it came.
    for place, (have, packet) in enumerate(zip(got, want, strict=True)):
        assert have == packet, f"packet {place}"
    opened = 0
    for place, (have, (sa, packet, number)) in enumerate(zip(got, sent)):
        if place % 5 == 0 or len(packet) > 1400:
            inside = open_packet(sa, have, number)
            assert inside == packet, f"packet {place}: {inside.hex()}, not {packet.hex()}"
            opened += 1
    dut._log.info("%d packets, %d of them opened by scapy", len(got), opened)
    assert opened > 40


@cocotb.test()
async def cycles(dut):
    """What binds the chain binds it alone: 64 bytes in an IPv4 tunnel with AES-128-CBC leave at the
    HMAC's rate, or at the cipher's if that is slower; with AES-GCM at the output's, a beat a cycle."""
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "hdr": dut.in_hdr_i}, 0.0)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i, {"beat": dut.out_beat_o}, 0.0)
    sad = SadPort(dut)
    await start(dut)
    for runner in (source, sink, sad):
        cocotb.start_soon(runner.run())
    sa, count = SAS[MODES[0], SUITES[0], False], 48
    for number in range(count):
        packet = esp.ip_packet(RNG, 4, 64)
        for value in beat.beats(packet):
            source.put({"beat": value, "hdr": esp.policy_hdr(packet, 1)})
        sad.expect({"op": "SadSend", "sa": 1, "bytes": 64, "payload": 64 - esp.header_bytes(packet)},
                   {"sa": 1, "number": number + 1, "iv": sa.iv(number + 1), "data": sa.record()})
    beats = len(beat.beats(esp.seal(sa, packet, 1).wire))
    await wait_for(dut.clk_i, lambda: len(sink.items) == beats * count)
    ends = sink.times[beats - 1 :: beats]
    each = (ends[-1] - ends[24]) / (count - 25)
    rounds = {"AuthNone": 0, "AuthSha1": 80, "AuthSha256": 64}[AUTH]
    block = rounds // int(os.environ.get("CV_RoundsPerCycle", 2))
    bound = beats if AUTH == "AuthNone" else 3 * block + 1
    if CIPHER == 0:
        bound = max(bound, 6 * 10)
    dut._log.info("a packet of 64 bytes in %.2f cycles, bound %d; first beat after %d", each, bound,
                  sink.times[0] - source.taken[0])
    assert each <= bound
