"""The records of gateway_pkg in Python: their fields from the highest bit down, packed and unpacked.

A record is a dict of field names; fields that are left out are 0. A nested record is a dict of its
own, and packs to the bits of its own layout.
"""

from enum import IntEnum

SA_BITS, POLICY_BITS, BUCKET_BITS, SHAPES = 10, 10, 11, 8
LEN_BITS, MAX_BYTES, WINDOW = 14, 9216, 128


class Drop(IntEnum):
    """Why a packet was dropped; the number is its counter's."""

    NONE, HEADER, TOO_LONG, NO_POLICY, POLICY, MISMATCH, NO_SA, HARD_LIMIT, NUMBERS, \
        REPLAY_LATE, REPLAY, INTEGRITY, PADDING, INNER, FRAGMENT, SHORT, UNSUPPORTED = range(17)


DISCARD, BYPASS, PROTECT = range(3)
SEND, FIND, ACCEPT, COUNT = range(4)
EVENT_SOFT, EVENT_HARD, EVENT_NUMBERS = range(3)

SELECTOR = [("v6", 1), ("src", 128), ("dst", 128), ("proto", 8), ("sport", 16), ("dport", 16)]
SHAPE = [("valid", 1), ("v6", 1), ("src_bits", 8), ("dst_bits", 8), ("proto", 1), ("sport", 1),
         ("dport", 1)]
POLICY = [("valid", 1), ("shape", 3), ("selector", SELECTOR), ("action", 2), ("low", 1),
          ("priority", 16), ("sa", SA_BITS), ("more", 1), ("next", POLICY_BITS)]
POLICY_BUCKET = [("valid", 1), ("first", POLICY_BITS)]
SA_BUCKET = [("valid", 1), ("first", SA_BITS)]
LIMITS = [("soft_bytes", 48), ("hard_bytes", 48), ("soft_packets", 48), ("hard_packets", 48)]
SA = [("valid", 1), ("tunnel", 1), ("v6", 1), ("esn", 1), ("cipher", 3), ("key_len", 2), ("auth", 2),
      ("spi", 32), ("src", 128), ("dst", 128), ("hop_limit", 8), ("copy_df", 1), ("key", 256),
      ("salt", 32), ("auth_keys", 512), ("reqid", SA_BITS), ("limits", LIMITS), ("more", 1),
      ("next", SA_BITS)]
STATE = [("top", 64), ("seen", WINDOW), ("bytes", 48), ("packets", 48), ("soft_told", 1),
         ("hard_told", 1)]
EVENT = [("kind", 2), ("sa", SA_BITS)]
REQUEST = [("op", 2), ("sa", SA_BITS), ("v6", 1), ("spi", 32), ("dst", 128), ("high", 32),
           ("seq", 32), ("bytes", LEN_BITS), ("payload", LEN_BITS)]
RESPONSE = [("drop", 5), ("sa", SA_BITS), ("number", 64), ("iv", 64), ("data", SA)]
IP_INFO = [("v6", 1), ("bytes", LEN_BITS), ("hdr_bytes", 6), ("tos", 8), ("df", 1), ("proto", 8)]
POLICY_HDR = [("low", 1), ("sa", SA_BITS), ("ip", IP_INFO)]


def width(layout) -> int:
    """Bits of a record."""
    return sum(w if isinstance(w, int) else width(w) for _, w in layout)


def pack(layout, record: dict) -> int:
    """A record's bits; a field that the layout lacks, or a value too big for it, is an error."""
    unknown = record.keys() - {name for name, _ in layout}
    assert not unknown, f"no such fields: {unknown}"
    value = 0
    for name, kind in layout:
        bits = kind if isinstance(kind, int) else width(kind)
        field = record.get(name, 0)
        field = pack(kind, field) if isinstance(field, dict) else int(field)
        assert 0 <= field < 1 << bits, f"{name} does not fit into {bits} bits"
        value = value << bits | field
    return value


def unpack(layout, value: int) -> dict:
    """A record from its bits."""
    record = {}
    for name, kind in reversed(layout):
        bits = kind if isinstance(kind, int) else width(kind)
        field = value & (1 << bits) - 1
        record[name] = field if isinstance(kind, int) else unpack(kind, field)
        value >>= bits
    assert value == 0, "more bits than the record has"
    return dict(reversed(record.items()))


def places(layout, base=0):
    """(name, highest bit, lowest bit) of each field, from the highest one down."""
    high = base + width(layout)
    for name, kind in layout:
        bits = kind if isinstance(kind, int) else width(kind)
        yield name, high - 1, high - bits
        high -= bits
