"""Pearson's hash as hdl/rtl/policy/pearson_pkg.sv defines it."""


def _shuffled() -> list[int]:
    places, x = list(range(256)), 1
    for i in range(255, 0, -1):
        x = (1664525 * x + 1013904223) % (1 << 32)
        j = (x >> 16) % (i + 1)
        places[i], places[j] = places[j], places[i]
    return places


TABLE = _shuffled()


def pearson(text: bytes, bits: int) -> int:
    """The hash of a string, cut to `bits`: one byte-wide hash after the other, the first lowest."""
    result = 0
    for k in range((bits + 7) // 8):
        value = k
        for byte in text:
            value = TABLE[value ^ byte]
        result |= value << 8 * k
    return result & (1 << bits) - 1
