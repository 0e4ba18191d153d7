"""GTP-U packets (3GPP TS 29.281 §5.1): the eight octets in front of a user's packet.

    | version 1, PT | type | length of what follows the first 8 octets | TEID |
"""

import struct

PORT = 2152

#: Types of messages.
ECHO_REQUEST, ECHO_RESPONSE, G_PDU = 1, 2, 255

_HEADER = struct.Struct("!BBHI")
#: Version 1, protocol type GTP, no extension header, sequence number or N-PDU number.
_FLAGS = 0x30


def packet(teid, payload, kind=G_PDU):
    """A GTP-U packet, UDP's payload."""
    return _HEADER.pack(_FLAGS, kind, len(payload), teid) + payload


def parse(data):
    """(type, TEID, payload) of UDP's payload, or None if it is not GTP-U."""
    if len(data) < _HEADER.size:
        return None
    flags, kind, length, teid = _HEADER.unpack_from(data)
    at = _HEADER.size + (4 if flags & 0x07 else 0)
    if flags & 0xF0 != _FLAGS or len(data) < _HEADER.size + length:
        return None
    return kind, teid, data[at : _HEADER.size + length]
