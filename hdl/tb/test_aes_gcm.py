"""Bench for AES-GCM: published vectors, random packets against OpenSSL, cycles per packet."""

import beat
import cocotb
import gcm
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from stream import Sink, Source, start, wait_for

# The GCM specification (McGrew, Viega), test cases with 96-bit IVs: 3 (AES-128), 9 (192), 15 (256).
# Their messages have no additional data; ESP always has some, so the tags here are computed by
# OpenSSL and only the ciphertext is the published one.
PLAIN = bytes.fromhex(
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255")
NONCE = bytes.fromhex("cafebabefacedbaddecaf888")
KEY = bytes.fromhex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
VECTORS = [
    (16, "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
         "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985"),
    (24, "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c"
         "7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda2710acade256"),
    (32, "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
         "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad"),
]


async def set_up(dut, idle, stall, tag_stall=None):
    source = Source(dut.clk_i, dut.in_valid_i, dut.in_ready_o,
                    {"beat": dut.in_beat_i, "job": dut.in_job_i, "rest": dut.in_rest_i}, idle)
    sink = Sink(dut.clk_i, dut.out_valid_o, dut.out_ready_i,
                {"beat": dut.out_beat_o, "rest": dut.out_rest_o}, stall)
    tags = Sink(dut.clk_i, dut.tag_valid_o, dut.tag_ready_i, {"tag": dut.tag_o},
                stall if tag_stall is None else tag_stall, seed=9)
    await start(dut)
    for runner in (source, sink, tags):
        cocotb.start_soon(runner.run())
    return source, sink, tags


def put(source, key, decrypt, nonce, aad, plain, rest=0):
    """Offers a packet; returns what must come out: payload and tag."""
    sealed = AESGCM(key).encrypt(nonce, plain, aad)
    cipher, tag = sealed[:-16], sealed[-16:]
    packet, out = (cipher, plain) if decrypt else (plain, cipher)
    for number, value in enumerate(beat.beats(packet)):
        job = gcm.job(key, decrypt, nonce, aad, len(packet)) if number == 0 \
            else source.random.getrandbits(gcm.JOB_BITS)
        source.put({"beat": value, "job": job, "rest": rest if number == 0 else 0})
    return out, int.from_bytes(tag, "big")


async def collect(dut, sink, tags, want, limit=60000):
    total = sum((len(p) + 15) // 16 for p, _ in want)
    await wait_for(dut.clk_i, lambda: len(sink.items) == total and len(tags.items) == len(want),
                   limit)
    assert beat.packets([i["beat"] for i in sink.items]) == [p for p, _ in want]
    assert tags.items == [t for _, t in want]


@cocotb.test()
async def published_vectors(dut):
    """The specification's ciphertexts, all key lengths, both directions."""
    source, sink, tags = await set_up(dut, 0.0, 0.0)
    want = []
    for length, cipher in VECTORS:
        for decrypt in (False, True):
            want.append(put(source, KEY[:length], decrypt, NONCE, bytes(8), PLAIN))
        assert want[-2][0] == bytes.fromhex(cipher)
    await collect(dut, sink, tags, want)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.4, 0.9])
async def random_packets(dut, idle, stall):
    """Random keys, directions, lengths of payload (also odd ones) and of additional data."""
    source, sink, tags = await set_up(dut, idle, stall)
    want, rests = [], []
    for number in range(60):
        rng = source.random
        plain = rng.randbytes(rng.randint(1, 100) if number % 10 else rng.randint(500, 900))
        want.append(put(source, rng.randbytes(rng.choice([16, 24, 32])), rng.random() < 0.5,
                        rng.randbytes(12), rng.randbytes(rng.choice([8, 12])), plain, number))
        rests += [number] * ((len(plain) + 15) // 16)
    await collect(dut, sink, tags, want)
    assert [i["rest"] for i in sink.items] == rests


@cocotb.test()
async def tags_wait(dut):
    """Tags that nobody takes stop the unit; none is lost."""
    source, sink, tags = await set_up(dut, 0.0, 0.0, tag_stall=0.98)
    want = [put(source, bytes(16), False, bytes(12), bytes(8), bytes([n] * 20)) for n in range(20)]
    await collect(dut, sink, tags, want)


@cocotb.test()
@cocotb.parametrize(length=[16, 32])
async def cycles(dut, length):
    """n + 2 cycles a packet of n beats; at 100 MHz that is the stated rate for each packet size."""
    source, sink, tags = await set_up(dut, 0.0, 0.0)
    for inner, gbits in ((64, 6.4), (240, 10.1), (1500, 12.2)):
        del sink.items[:], sink.times[:], tags.items[:], tags.times[:], source.taken[:]
        payload = (inner + 2 + 3) // 4 * 4  # ESP's trailer and padding
        begin = source.cycle
        want = [put(source, KEY[:length], False, NONCE, bytes(8), bytes(payload)) for _ in range(8)]
        await collect(dut, sink, tags, want)
        gaps = [b - a for a, b in zip(tags.times, tags.times[1:])][1:]
        n = (payload + 15) // 16
        rate = 8 * inner * 0.1 / max(gaps)
        dut._log.info("AES-%d-GCM, %d bytes: %s cycles a packet, %.1f Gbit/s at 100 MHz, first "
                      "beat after %d, tag %d later", 8 * length, inner, set(gaps), rate,
                      sink.times[0] - begin - 1, tags.times[0] - sink.times[n - 1])
        assert max(gaps) <= n + 2
        assert sink.times[0] - begin - 1 <= 18
        assert tags.times[0] - sink.times[n - 1] <= 6
        assert rate >= gbits
