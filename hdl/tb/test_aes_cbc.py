"""Bench for AES-CBC: NIST SP 800-38A vectors, random packets against OpenSSL, cycles per block."""

import beat
import cocotb
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from stream import Sink, Source, start, wait_for

# SP 800-38A, F.2.1 to F.2.6: one plaintext, one IV, three keys.
PLAIN = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710")
IV = bytes(range(16))
VECTORS = [
    ("2b7e151628aed2a6abf7158809cf4f3c",
     "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"
     "73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7"),
    ("8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
     "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a"
     "571b242012fb7ae07fa9baac3df102e008b0e27988598881d920a9e64f5615cd"),
    ("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
     "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"
     "39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b"),
]
LENGTHS = {16: 0, 24: 1, 32: 2}
ROUNDS = {16: 10, 24: 12, 32: 14}


def job(key, iv, decrypt):
    """The packed aes_pkg::job_t."""
    value = int.from_bytes(key.ljust(32, b"\0"), "big")
    value = value << 128 | int.from_bytes(iv, "big")
    return (value << 2 | LENGTHS[len(key)]) << 1 | int(decrypt)


async def set_up(dut, idle, stall):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "job": dut.in_job_i, "rest": dut.in_rest_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                {"beat": dut.out_beat_o, "rest": dut.out_rest_o}, stall)
    await start(dut)
    cocotb.start_soon(source.run())
    cocotb.start_soon(sink.run())
    return source, sink


def put(source, key, iv, decrypt, packet, rest=0):
    """Offers a packet; behind the first beat the job lines carry noise."""
    for number, value in enumerate(beat.beats(packet)):
        this = job(key, iv, decrypt) if number == 0 else source.random.getrandbits(387)
        source.put({"beat": value, "job": this, "rest": rest if number == 0 else 0})


def openssl(key, iv, decrypt, packet):
    cipher = Cipher(algorithms.AES(key), modes.CBC(iv))
    worker = cipher.decryptor() if decrypt else cipher.encryptor()
    return worker.update(packet) + worker.finalize()


async def collect(dut, sink, want, limit=60000):
    total = sum(len(p) // 16 for p in want)
    await wait_for(dut.clk_i, lambda: len(sink.items) == total, limit)
    assert beat.packets([i["beat"] for i in sink.items]) == want


@cocotb.test()
async def nist_vectors(dut):
    """SP 800-38A, both directions, all key lengths."""
    source, sink = await set_up(dut, 0.0, 0.0)
    want = []
    for key, cipher in VECTORS:
        key, cipher = bytes.fromhex(key), bytes.fromhex(cipher)
        put(source, key, IV, False, PLAIN)
        put(source, key, IV, True, cipher)
        want += [cipher, PLAIN]
    await collect(dut, sink, want)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.9], stall=[0.0, 0.95])
async def random_packets(dut, idle, stall):
    """Random keys, lengths and directions, packet after packet; the header passes through."""
    source, sink = await set_up(dut, idle, stall)
    want, rests = [], []
    for number in range(80):
        rng = source.random
        key, iv = rng.randbytes(rng.choice([16, 24, 32])), rng.randbytes(16)
        packet, decrypt = rng.randbytes(16 * rng.randint(1, 6)), rng.random() < 0.5
        put(source, key, iv, decrypt, packet, number)
        want.append(openssl(key, iv, decrypt, packet))
        rests += [number] * (len(packet) // 16)
    await collect(dut, sink, want)
    assert [i["rest"] for i in sink.items] == rests


@cocotb.test()
@cocotb.parametrize(length=[16, 24, 32], decrypt=[False, True])
async def cycles(dut, length, decrypt):
    """10/12/14 cycles a block without gaps in a packet; between packets 3 more to decrypt."""
    source, sink = await set_up(dut, 0.0, 0.0)
    packets = [source.random.randbytes(80) for _ in range(4)]
    want = []
    for packet in packets:
        key, iv = source.random.randbytes(length), source.random.randbytes(16)
        put(source, key, iv, decrypt, packet)
        want.append(openssl(key, iv, decrypt, packet))
    await collect(dut, sink, want)
    gaps = [b - a for a, b in zip(sink.times, sink.times[1:])]
    inside = {g for i, g in enumerate(gaps) if i % 5 != 4}
    between = {g for i, g in enumerate(gaps) if i % 5 == 4}
    dut._log.info("AES-%d %s: %s cycles a block, %s between packets, first after %d",
                  8 * length, "decrypt" if decrypt else "encrypt", inside, between, sink.times[0] - BEGIN)
    assert inside == {ROUNDS[length]}
    assert between == {ROUNDS[length] + (3 if decrypt else 0)}
    assert sink.times[0] - BEGIN == (2 * ROUNDS[length] if decrypt else ROUNDS[length]) + 3


# The source offers the first beat in its first cycle, counted from 1.
BEGIN = 1
