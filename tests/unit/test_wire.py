"""What judges the wire must see what is wrong on it, and read what the kernel says."""

import struct

import pytest
from lab.capture import parse
from lab.wire import Record
from lab.xfrm import A, SUITES, Tunnel, algorithms, parse_states

STATES = """\
src 192.0.2.1 dst 192.0.2.2
	proto esp spi 0xc54e2a52(3310234194) reqid 1(0x00000001) mode tunnel
	replay-window 0 seq 0x00000000 flag af-unspec (0x00100000)
	aead rfc4106(gcm(aes)) 0x00 (160 bits) 128
	anti-replay context: seq 0x0, oseq 0x1f, bitmap 0x00000000
	lifetime config:
	  limit: soft (INF)(bytes), hard (INF)(bytes)
	lifetime current:
	  2604(bytes), 31(packets)
	  add 2026-11-26 18:52:29 use 2026-11-26 18:52:30
src 192.0.2.2 dst 192.0.2.1
	proto esp spi 0x00001001(4097) reqid 1(0x00000001) mode tunnel
	replay-window 0 seq 0x00000000 flag esn (0x00100000)
	anti-replay esn context:
	 seq-hi 0x1, seq 0x5, oseq-hi 0x0, oseq 0x0
	 replay_window 64, bitmap-length 2
	 00000000 0000001f
	lifetime current:
	  0(bytes), 0(packets)
	  add 2026-11-26 18:52:29 use -
src 192.0.2.1 dst 192.0.2.2
	proto esp spi 0x00000000(0) reqid 1(0x00000001) mode tunnel
	lifetime current:
	  0(bytes), 0(packets)
	  add 2026-11-26 18:52:29 use -
"""


def frame(protocol, spi, sequence, iv=b"12345678", ends=(1, 2)):
    """An Ethernet frame with ESP or AH in IPv4."""
    header = struct.pack("!II", spi, sequence)
    body = header + iv + bytes(16) if protocol == 50 else b"\4\4\0\0" + header + bytes(32)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0)
    ip += b"".join(bytes([192, 0, 2, end]) for end in ends)
    return parse(0.0, bytes(12) + b"\x08\0" + ip + body)


@pytest.mark.parametrize("protocol", [50, 51])
def test_a_number_that_comes_twice(protocol):
    ivs = [bytes([n]) * 8 for n in range(3)]
    good = [frame(protocol, 9, n + 1, ivs[n]) for n in range(3)]
    assert list(Record(good).repeats()) == [] and Record(good).packets(9) == 3
    assert "sequence number" in next(Record([*good, frame(protocol, 9, 2, b"another!")]).repeats())
    # Other SAs have their own numbers: another SPI, another destination.
    other = [frame(protocol, 8, 2, ivs[1]), frame(protocol, 9, 2, ivs[1], ends=(2, 1))]
    assert list(Record(good + other).repeats()) == []


def test_an_iv_that_comes_twice():
    twice = [frame(50, 9, 1), frame(50, 9, 2)]
    assert "IV" in next(Record(twice).repeats())
    assert list(Record(twice, iv_len_bytes=0).repeats()) == []


def test_a_packet_that_is_late():
    numbers = [*range(1, 40), *range(50, 80), 48, *range(80, 90)]
    frames = [frame(50, 9, n, n.to_bytes(8)) for n in numbers]
    assert list(Record(frames).late()) == []
    assert "79" not in str(list(Record(frames + [frame(50, 9, 58, bytes(8))]).late()))
    assert "49 behind" in next(Record(frames + [frame(50, 9, 40, bytes(8))]).late())


def test_the_kernels_words_are_read():
    out, back = parse_states(STATES)
    assert (out.spi, out.bytes, out.packets, out.oseq, out.seq) == (0xC54E2A52, 2604, 31, 31, 0)
    assert out.used > out.added and out.mode == "tunnel" and out.reqid == 1
    assert (back.seq, back.oseq, back.used) == ((1 << 32) + 5, 0, None)


def test_tunnels_by_hand():
    states = list(Tunnel(suite="cbc-sha256").states(A))
    assert len(states) == 2 and "src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x1000" in states[0]
    ways = [line.partition(" dir ")[2].split()[0] for line in Tunnel().policies(A)]
    assert ways == ["out", "in", "fwd"]
    # A key for each SA and each algorithm.
    keys = [word for spi in (1, 2) for suite in SUITES for word in algorithms(suite, spi).split() if "0x" in word]
    assert len(set(keys)) == len(keys) > 20
