"""What becomes of decrypted text inbound: RFC 4303's trailer, RFC 6040's table, IP headers."""

import struct

from open_model import checksum

NOT_ECT, ECT1, ECT0, CE = range(4)


def new_ecn(inner, outer):
    """RFC 6040 figure 4; None: dropped."""
    if inner == NOT_ECT:
        return None if outer == CE else NOT_ECT
    if outer == CE or inner == CE:
        return CE
    return ECT1 if ECT1 in (inner, outer) else ECT0


def with_tos(packet, tos):
    """The packet with another DSCP and ECN, and the checksum mended (RFC 1624 equation 3): what was
    wrong stays wrong."""
    packet = bytearray(packet)
    if packet[0] >> 4 == 6:
        packet[0], packet[1] = 0x60 | tos >> 4, packet[1] & 15 | (tos & 15) << 4
    else:
        old, total = struct.unpack(">H", packet[:2])[0], struct.unpack(">H", packet[10:12])[0]
        packet[1] = tos
        total = (total ^ 0xFFFF) + (old ^ 0xFFFF) + struct.unpack(">H", packet[:2])[0]
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        packet[10:12] = struct.pack(">H", total ^ 0xFFFF)
    return bytes(packet)


def tos_of(packet):
    return int.from_bytes(packet[:2], "big") >> 4 & 255 if packet[0] >> 4 == 6 else packet[1]


def uncover(text, tunnel, net):
    """What must become of decrypted text: the packet, or the name of a drop reason."""
    pad, next_header = text[-2:]
    if pad + 2 > len(text) or text[len(text) - 2 - pad:-2] != bytes(range(1, pad + 1)):
        return "Padding"
    payload = text[:len(text) - 2 - pad]
    if next_header == 59:
        return "Inner"
    if not tunnel:
        packet = bytearray(net + payload)
        if net[0] >> 4 == 6:
            packet[4:6] = struct.pack(">H", len(payload))
            packet[6] = next_header
        else:
            packet[2:4] = struct.pack(">H", len(packet))
            packet[9] = next_header
            packet[10:12] = bytes(2)
            packet[10:12] = struct.pack(">H", checksum(packet[:len(net)]))
        return bytes(packet)
    version = {4: 4, 41: 6}.get(next_header)
    least = 40 if version == 6 else 20
    if version is None or len(payload) < least or payload[0] >> 4 != version:
        return "Inner"
    total = (40 + struct.unpack(">H", payload[4:6])[0] if version == 6
             else struct.unpack(">H", payload[2:4])[0])
    if not least <= total <= len(payload):
        return "Inner"
    inner, outer = tos_of(payload) & 3, tos_of(net) & 3
    ecn = new_ecn(inner, outer)
    if ecn is None:
        return "Inner"
    packet = payload[:total]
    return packet if ecn == inner else with_tos(packet, tos_of(packet) & 0xFC | ecn)
