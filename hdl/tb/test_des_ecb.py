"""Bench for DES-ECB: a published vector, random packets against OpenSSL, rate and latency."""

import cocotb
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from test_des_cbc import collect, put, set_up


def openssl(key, decrypt, packet):
    cipher = Cipher(TripleDES(key * 3), modes.ECB())
    worker = cipher.decryptor() if decrypt else cipher.encryptor()
    return worker.update(packet) + worker.finalize()


@cocotb.test()
async def published_vector(dut):
    """FIPS 81, table B1 (ECB), both directions."""
    source, sink = await set_up(dut, 0.0, 0.0)
    key, plain = bytes.fromhex("0123456789abcdef"), b"Now is the time for all "
    cipher = bytes.fromhex("3fa40e8a984d48156a271787ab8883f9893d51ec4b563b53")
    put(source, [key], bytes(8), False, plain)
    put(source, [key], bytes(8), True, cipher)
    await collect(dut, sink, [cipher, plain])


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6], stall=[0.0, 0.8])
async def random_packets(dut, idle, stall):
    """Random keys, directions and lengths; the header passes through."""
    source, sink = await set_up(dut, idle, stall)
    want, rests = [], []
    for number in range(100):
        rng = source.random
        key, decrypt = rng.randbytes(8), rng.random() < 0.5
        packet = rng.randbytes(8 * rng.randint(1, 20))
        put(source, [key], bytes(8), decrypt, packet, number)
        want.append(openssl(key, decrypt, packet))
        rests += [number] * ((len(packet) + 15) // 16)
    await collect(dut, sink, want)
    assert [i["rest"] for i in sink.items] == rests


@cocotb.test()
async def cycles(dut):
    """2 cycles a beat, also from packet to packet; 18 cycles to the first output beat."""
    source, sink = await set_up(dut, 0.0, 0.0)
    begin = source.cycle
    for _ in range(6):
        put(source, [b"one key!"], bytes(8), False, bytes(80))
    await collect(dut, sink, [openssl(b"one key!", False, bytes(80))] * 6)
    gaps = {b - a for a, b in zip(sink.times, sink.times[1:])}
    dut._log.info("%s cycles a beat, first after %d", gaps, sink.times[0] - begin - 1)
    assert gaps == {2}
    assert sink.times[0] - begin - 1 <= 18
