"""Frames put on a link by hand, and ESP made by scapy with the keys of a live SA."""

import errno
import re
import socket
import struct
import time
from dataclasses import dataclass

from .base import PATIENCE_S

ETH_P_ALL = 0x0003


class Injector:
    """Sends raw frames out of an interface of a host."""

    def __init__(self, host, dev):
        self.sock = host.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        with host.entered():
            self.sock.bind((dev, 0))

    def send(self, *frames):
        """Sends frames (bytes, or what scapy builds) in order; waits where the interface's queue is full."""
        end = time.monotonic() + PATIENCE_S
        for frame in frames:
            while not self._take(bytes(frame), end):
                time.sleep(0.001)

    def _take(self, frame, end):
        try:
            self.sock.send(frame)
        except OSError as error:
            if error.errno != errno.ENOBUFS or time.monotonic() > end:
                raise
            return False
        return True

    def close(self):
        self.sock.close()


@dataclass
class SaKeys:
    """A state as `ip xfrm state` prints it, with what is needed to make its packets."""

    src: str
    dst: str
    spi: int
    mode: str
    aead: bytes = b""
    icv_bits: int = 0
    auth_name: str = ""
    auth: bytes = b""
    enc_name: str = ""
    enc: bytes = b""
    encap: bool = False


def xfrm_states(text):
    """Parses the output of `ip xfrm state`."""
    found = []
    for block in re.split(r"^(?=src )", text, flags=re.M):
        head = re.match(r"src (\S+) dst (\S+)", block)
        proto = re.search(r"proto esp spi (0x[0-9a-f]+).*mode (\w+)", block)
        if not head or not proto:
            continue
        state = SaKeys(head.group(1), head.group(2), int(proto.group(1), 16), proto.group(2))
        state.encap = "encap type espinudp" in block
        for kind, name, key, bits in re.findall(
            r"^\s+(aead|auth|auth-trunc|enc) (\S+) (0x[0-9a-f]+|\"\")(?: (\d+))?", block, flags=re.M
        ):
            raw = bytes.fromhex(key[2:]) if key.startswith("0x") else b""
            if kind == "aead":
                state.aead, state.icv_bits = raw, int(bits)
            elif kind == "enc":
                state.enc_name, state.enc = name, raw
            else:
                state.auth_name, state.auth = name, raw
        found.append(state)
    return found


def scapy_sa(state, version=4):
    """scapy's SecurityAssociation for an AES-GCM tunnel state (the suite that injections use)."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.ipsec import ESP, SecurityAssociation

    outer = (IP if ":" not in state.dst else IPv6)(src=state.src, dst=state.dst)
    extra = {"nat_t_header": UDP(sport=4500, dport=4500)} if state.encap else {}
    return SecurityAssociation(
        ESP, spi=state.spi, crypt_algo="AES-GCM", crypt_key=state.aead,
        tunnel_header=outer if state.mode == "tunnel" else None, **extra,
    )  # fmt: skip


def ether(src_mac, dst_mac, packet):
    """An Ethernet frame around an IP packet (bytes or scapy)."""
    raw = bytes(packet)
    ethertype = 0x86DD if raw and raw[0] >> 4 == 6 else 0x0800
    mac = lambda text: bytes.fromhex(text.replace(":", ""))  # noqa: E731
    return mac(dst_mac) + mac(src_mac) + struct.pack("!H", ethertype) + raw


def ipv4_checksum(header):
    """The header checksum of an IPv4 header whose checksum field counts as it stands."""
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def fix_ipv4(frame):
    """The same Ethernet/IPv4 frame with total length and header checksum made right again."""
    data = bytearray(frame)
    header = (data[14] & 0x0F) * 4
    struct.pack_into("!H", data, 16, len(data) - 14)
    struct.pack_into("!H", data, 24, 0)
    struct.pack_into("!H", data, 24, ipv4_checksum(bytes(data[14 : 14 + header])))
    return bytes(data)
