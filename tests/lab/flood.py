"""A flood of packets that are each the first of a flow: UDP with another pair of ports each, at a steady rate.

    flood.py --dev eth0 --dst-mac 02:..:01 --src 10.1.0.10 --to 10.2.0.10 --rate 200000 --seconds 5

It writes what it has sent, as JSON, at its end.
"""

import argparse
import ctypes
import json
import socket
import struct
import sys
import time
from pathlib import Path

if __package__:
    from .base import PATIENCE_S
else:
    PATIENCE_S = 0

BURST = 64
ETH, IPV4, UDP = 14, 20, 8
PYTHON = "/usr/bin/python3"


class Flood:
    """The same from a host of a lab, until it is stopped."""

    def __init__(self, host, dev, dst_mac, src, to, *, rate, seconds):
        self.process = host.spawn(
            PYTHON, Path(__file__), "--dev", dev, "--src-mac", host.mac(dev), "--dst-mac", dst_mac,
            "--src", src, "--to", to, "--rate", rate, "--seconds", seconds,
        )  # fmt: skip
        self.process.wait_output("ready")

    def finish(self):
        """What was sent: packets, and seconds that it took."""
        self.process.wait(2 * PATIENCE_S)
        return json.loads(self.process.output().splitlines()[-1])


class _IoVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class _MsgHdr(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.c_void_p), ("iovlen", ctypes.c_size_t),
        ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_int),
    ]  # fmt: skip


class _MMsgHdr(ctypes.Structure):
    _fields_ = [("header", _MsgHdr), ("len", ctypes.c_uint)]


def frame(args):
    """A datagram of 18 bytes without a checksum, as a frame."""
    mac = lambda text: bytes.fromhex(text.replace(":", ""))  # noqa: E731
    payload = b"\xa5" * 18
    udp = struct.pack("!HHHH", 0, 0, UDP + len(payload), 0) + payload
    head = struct.pack("!BBHHHBBH", 0x45, 0, IPV4 + len(udp), 0, 0x4000, 64, 17, 0)
    ip = head + socket.inet_aton(args.src) + socket.inet_aton(args.to)
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + ip[12:]
    return mac(args.dst_mac) + mac(args.src_mac) + b"\x08\0" + ip + udp


def main():
    parser = argparse.ArgumentParser()
    for name in ("dev", "src-mac", "dst-mac", "src", "to"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    template = frame(args)
    size = len(template)
    memory = ctypes.create_string_buffer(template * BURST, BURST * size)
    vectors, messages = (_IoVec * BURST)(), (_MMsgHdr * BURST)()
    for n in range(BURST):
        vectors[n] = _IoVec(ctypes.addressof(memory) + n * size, size)
        messages[n].header.iov = ctypes.addressof(vectors[n])
        messages[n].header.iovlen = 1
    sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg
    ports = [n * size + ETH + IPV4 for n in range(BURST)]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
        sock.bind((args.dev, 0))
        print("ready", flush=True)
        begun = time.monotonic()
        sent, number = 0, 0
        while (elapsed := time.monotonic() - begun) < args.seconds:
            if sent > elapsed * args.rate:
                time.sleep(0.0002)
                continue
            for at in ports:
                # Source ports from 1024 on, and then the next destination port.
                struct.pack_into("!HH", memory, at, 1024 + number % 64000, 20000 + number // 64000)
                number += 1
            sent += max(sendmmsg(sock.fileno(), messages, BURST, 0), 0)
    print(json.dumps({"sent": sent, "seconds": elapsed}))


if __name__ == "__main__":
    sys.exit(main())
