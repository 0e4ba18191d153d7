"""IP packets for benches: builders, and a parser that says what cv_ip_parse must find."""

from records import MAX_BYTES, Drop

PORTS, ICMP = {6, 17, 33, 132, 136}, {1, 58}
EXTENSIONS = {0, 43, 44, 51, 60}


def checksum(data: bytes) -> int:
    """The internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def ipv4(payload: bytes, src=0x0A000001, dst=0x0A000002, proto=17, tos=0, df=False, more=False,
         offset=0, options=b"", ttl=64, total=None, ihl=None) -> bytes:
    """An IPv4 packet; `offset` is in units of 8 bytes, options a multiple of 4 bytes."""
    size = 20 + len(options)
    total = size + len(payload) if total is None else total
    header = bytearray(
        bytes([0x40 | (size // 4 if ihl is None else ihl), tos]) + total.to_bytes(2, "big")
        + b"\x12\x34" + (df << 14 | more << 13 | offset).to_bytes(2, "big")
        + bytes([ttl, proto, 0, 0]) + src.to_bytes(4, "big") + dst.to_bytes(4, "big") + options)
    covered = max(4 * (header[0] & 15), 20)
    header[10:12] = checksum(bytes((header + payload)[:covered])).to_bytes(2, "big")
    return bytes(header) + payload


def ipv6(payload: bytes, src=1 << 96 | 1, dst=1 << 96 | 2, proto=17, tos=0, extensions=(), hops=64,
         length=None) -> bytes:
    """An IPv6 packet; extensions are (type, the header without its first byte)."""
    chain, kinds = b"", [k for k, _ in extensions] + [proto]
    for (_, body), following in zip(extensions, kinds[1:]):
        chain += bytes([following]) + body
    length = len(chain) + len(payload) if length is None else length
    return (bytes([0x60 | tos >> 4, (tos & 15) << 4, 0, 0]) + length.to_bytes(2, "big")
            + bytes([kinds[0], hops]) + src.to_bytes(16, "big") + dst.to_bytes(16, "big")
            + chain + payload)


def options_header(units: int) -> bytes:
    """Body of a hop-by-hop, routing or options header of 8 * (units + 1) bytes."""
    return bytes([units]) + bytes(6 + 8 * units)


def fragment_header(offset: int, more: bool) -> bytes:
    """Body of a fragment header."""
    return b"\0" + (offset << 3 | more).to_bytes(2, "big") + b"\0\0\0\7"


def _upper(data, proto, at, later):
    """(sport, dport) of the upper layer, or None where they are missing."""
    if later:
        return 0, 0
    if proto in PORTS:
        field = data[at : at + 4]
        return (int.from_bytes(field[:2], "big"), int.from_bytes(field[2:], "big")) \
            if len(field) == 4 else None
    if proto in ICMP:
        field = data[at : at + 2]
        return (int.from_bytes(field, "big"), 0) if len(field) == 2 else None
    return 0, 0


def _parse4(data):
    size, total = 4 * (data[0] & 15), int.from_bytes(data[2:4], "big")
    flags = int.from_bytes(data[6:8], "big")
    offset, more = flags & 0x1FFF, flags >> 13 & 1
    if len(data) < 20 or size < 20 or len(data) < size or total < size:
        return None
    if checksum(data[:size]) or 8 * offset + total > 0xFFFF:
        return None
    ports = _upper(data, data[9], size, offset)
    if ports is None:
        return None
    info = {"v6": 0, "bytes": total & 0x3FFF, "hdr_bytes": size, "tos": data[1],
            "df": flags >> 14 & 1, "proto": data[9]}
    select = {"v6": 0, "src": int.from_bytes(data[12:16], "big") << 96,
              "dst": int.from_bytes(data[16:20], "big") << 96, "proto": data[9],
              "sport": ports[0], "dport": ports[1]}
    return info, select, total, bool(offset or more), size


def _parse6(data):
    if len(data) < 40:
        return None
    total = int.from_bytes(data[4:6], "big") + 40
    kind, at, fragment, later = data[6], 40, False, False
    reachable = True
    while kind in EXTENSIONS and not later:
        if len(data) < at + 8:
            return None
        size = {44: 8, 51: 4 * (data[at + 1] + 2)}.get(kind, 8 * (data[at + 1] + 1))
        if size % 8:
            return None
        if at + size > 128:
            reachable = False
            break
        if (kind == 0 and at > 40) or len(data) < at + size:
            return None
        if kind == 44:
            field = int.from_bytes(data[at + 2 : at + 4], "big")
            if fragment or (field & 0xFFF8) + total - at - 8 > 0xFFFF:
                return None
            fragment, later = True, field >> 3 != 0
        kind, at = data[at], at + size
    ports = _upper(data, kind, at, later) if reachable else (0, 0)
    if ports is None:
        return None
    info = {"v6": 1, "bytes": total & 0x3FFF, "hdr_bytes": 40,
            "tos": (data[0] << 4 | data[1] >> 4) & 255, "df": 1, "proto": data[6]}
    select = {"v6": 1, "src": int.from_bytes(data[8:24], "big"),
              "dst": int.from_bytes(data[24:40], "big"), "proto": kind,
              "sport": ports[0], "dport": ports[1]}
    return info, select, total, fragment, at


def parse(data: bytes):
    """(head drop, tail drop, info, selector, is a fragment, offset of the upper layer)."""
    found = None
    if len(data) > 8 and data[0] >> 4 in (4, 6):
        found = (_parse4 if data[0] >> 4 == 4 else _parse6)(data)
    if found is None:
        return Drop.HEADER, Drop.HEADER, None, None, None, None
    info, select, total, fragment, upper = found
    tail = Drop.TOO_LONG if total != len(data) or len(data) > MAX_BYTES else Drop.NONE
    return Drop.NONE, tail, info, select, fragment, upper
