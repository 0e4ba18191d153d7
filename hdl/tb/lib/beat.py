"""The data beat `culvert_pkg::beat_t` in Python: 128 data bits, 4 tail bits, last."""


def pack(chunk: bytes, last: bool) -> int:
    """One beat of 1 to 16 bytes; the first byte lies highest."""
    assert 1 <= len(chunk) <= 16 and (last or len(chunk) == 16)
    data = int.from_bytes(chunk.ljust(16, b"\0"), "big")
    return data << 5 | (len(chunk) - 1) << 1 | int(last)


def beats(packet: bytes) -> list[int]:
    """A whole packet as beats."""
    assert packet
    chunks = [packet[i : i + 16] for i in range(0, len(packet), 16)]
    return [pack(c, i == len(chunks) - 1) for i, c in enumerate(chunks)]


def unpack(value: int) -> tuple[bytes, bool]:
    """A beat's bytes, and whether it is the last. Checks that the bytes beyond the tail are 0."""
    last, tail = value & 1, value >> 1 & 15
    data = (value >> 5).to_bytes(16, "big")
    assert last or tail == 15, "only the last beat may be short"
    assert not any(data[tail + 1 :]), "bytes beyond the tail must be zero"
    return data[: tail + 1], bool(last)


def packets(values) -> list[bytes]:
    """The whole packets of a list of beats; a rest without `last` is an error."""
    out, current = [], b""
    for value in values:
        chunk, last = unpack(value)
        current += chunk
        if last:
            out.append(current)
            current = b""
    assert not current, "the last packet is incomplete"
    return out
