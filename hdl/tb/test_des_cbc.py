"""Bench for DES-CBC and 3DES-CBC: published vectors, random packets against OpenSSL, rates."""

import beat
import cocotb
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from stream import Sink, Source, start, wait_for


def job(keys, iv, decrypt):
    """The packed des_pkg::des_job_t; one key, or three."""
    value = 0
    for key in (keys * 3)[:3]:
        value = value << 64 | int.from_bytes(key, "big")
    value = value << 64 | int.from_bytes(iv, "big")
    return value << 2 | int(len(keys) == 3) << 1 | int(decrypt)


def openssl(keys, iv, decrypt, packet):
    """Single DES is triple DES with three equal keys."""
    cipher = Cipher(TripleDES(b"".join((keys * 3)[:3])), modes.CBC(iv))
    worker = cipher.decryptor() if decrypt else cipher.encryptor()
    return worker.update(packet) + worker.finalize()


async def set_up(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "job": dut.in_job_i, "rest": dut.in_rest_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                {"beat": dut.out_beat_o, "rest": dut.out_rest_o}, stall)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    return source, sink


def put(source, keys, iv, decrypt, packet, rest=0):
    for number, value in enumerate(beat.beats(packet)):
        this = job(keys, iv, decrypt) if number == 0 else source.random.getrandbits(258)
        source.put({"beat": value, "job": this, "rest": rest if number == 0 else 0})


async def collect(dut, sink, want, limit=60000):
    total = sum((len(p) + 15) // 16 for p in want)
    await wait_for(dut.clk_i, lambda: len(sink.items) == total, limit)
    assert beat.packets([i["beat"] for i in sink.items]) == want


@cocotb.test()
async def published_vectors(dut):
    """FIPS 81, table C1 (CBC), and one triple encryption (SP 800-67, appendix B)."""
    source, sink = await set_up(dut, 0.0, 0.0)
    key, iv = bytes.fromhex("0123456789abcdef"), bytes.fromhex("1234567890abcdef")
    plain = b"Now is the time for all "
    cipher = bytes.fromhex("e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6")
    keys = [bytes.fromhex(k) for k in
            ("0123456789abcdef", "23456789abcdef01", "456789abcdef0123")]
    triple = bytes.fromhex("a826fd8ce53b855f")
    put(source, [key], iv, False, plain)
    put(source, [key], iv, True, cipher)
    put(source, keys, bytes(8), False, b"The qufc")
    put(source, keys, bytes(8), True, triple)
    await collect(dut, sink, [cipher, plain, triple, b"The qufc"])


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.8])
async def random_packets(dut, idle, stall):
    """DES and 3DES, both directions, mixed lengths, more packets than slots; order is kept."""
    source, sink = await set_up(dut, idle, stall)
    want, rests = [], []
    for number in range(60):
        rng = source.random
        keys = [rng.randbytes(8) for _ in range(rng.choice([1, 3]))]
        iv, decrypt = rng.randbytes(8), rng.random() < 0.5
        packet = rng.randbytes(8 * rng.randint(1, 16))
        put(source, keys, iv, decrypt, packet, number)
        want.append(openssl(keys, iv, decrypt, packet))
        rests += [number] * ((len(packet) + 15) // 16)
    await collect(dut, sink, want)
    assert [i["rest"] for i in sink.items] == rests


@cocotb.test()
async def longest_packet(dut):
    """A packet that fills its slot."""
    source, sink = await set_up(dut, 0.0, 0.0)
    packet = source.random.randbytes(2048)
    put(source, [b"one key!"], bytes(8), False, packet)
    await collect(dut, sink, [openssl([b"one key!"], bytes(8), False, packet)])


@cocotb.test()
@cocotb.parametrize(count=[1, 3])
async def cycles(dut, count):
    """A full ring does one pass a cycle; a packet alone has the stated latency."""
    source, sink = await set_up(dut, 0.0, 0.0)
    keys = [bytes([17 * n] * 8) for n in range(count)]
    packet = bytes(512)
    want = openssl(keys, bytes(8), False, packet)
    put(source, keys, bytes(8), False, packet)
    await collect(dut, sink, [want])
    alone = sink.times[0] - source.taken[-1]
    assert alone <= 16 * (64 * count + 1) + 4
    del sink.items[:], sink.times[:]
    for _ in range(96):
        put(source, keys, bytes(8), False, packet)
    await collect(dut, sink, [want] * 96)
    # In the steady state: packets 33 to 80.
    per_packet = (sink.times[32 * 80 - 1] - sink.times[32 * 32 - 1]) / 48
    dut._log.info("%d passes: %d cycles alone, %.1f cycles a packet of 64 blocks", count, alone,
                  per_packet)
    assert per_packet <= 64 * count + 64 / 16 + 2
