#!/usr/bin/python3
"""A link that delays, loses and cuts by address, where the kernel has no netem.

    impair.py WEST EAST SOCKET

It stands between two interfaces in place of a bridge, and moves frames from one to the other. Rules come over a datagram socket as
JSON: a list of {"net": "198.51.100.0/24", "delay_ms": 20, "jitter_ms": 2, "loss": 0.05, "cut": false}; a frame is under the first rule
whose network has its source or destination. Frames keep their order within a rule unless jitter is asked for with `"reorder": true`.
Runs alone (this file needs nothing but Python).
"""

import argparse
import heapq
import ipaddress
import json
import os
import random
import select
import socket
import struct
import sys
import time

ETH_P_ALL = 0x0003
#: linux/if_packet.h: a frame that this host itself has sent; and what puts a header in front of frames that says of offloads, such as
#: a checksum that the sender's driver would have made.
PACKET_OUTGOING, SOL_PACKET, PACKET_VNET_HDR = 4, 263, 15

#: Length of that header (struct virtio_net_hdr).
OFFLOADS_LEN = 10


class Rule:
    """Treatment of the frames from and to a network."""

    def __init__(self, net, delay_ms=0.0, jitter_ms=0.0, loss=0.0, cut=False, reorder=False):
        self.net = ipaddress.ip_network(net)
        self.delay, self.jitter = delay_ms / 1e3, jitter_ms / 1e3
        self.loss, self.cut, self.reorder = loss, cut, reorder
        self.last = 0.0

    def due(self, now, chance):
        """When a frame goes on; None if it is lost."""
        if self.cut or (self.loss and chance.random() < self.loss):
            return None
        due = now + self.delay + (chance.random() * self.jitter if self.jitter else 0)
        if not self.reorder:
            due = self.last = max(due, self.last)
        return due


def addresses(frame):
    """Source and destination of an IPv4 or IPv6 frame without tags."""
    (kind,) = struct.unpack_from("!H", frame, 12)
    if kind == 0x0800 and len(frame) >= 34:
        return ipaddress.ip_address(frame[26:30]), ipaddress.ip_address(frame[30:34])
    if kind == 0x86DD and len(frame) >= 54:
        return ipaddress.ip_address(frame[22:38]), ipaddress.ip_address(frame[38:54])
    return ()


class Relay:
    """Two interfaces, and what is under way between them."""

    def __init__(self, west, east, seed=1):
        self.ends = [self._open(west), self._open(east)]
        self.rules, self.waiting = [], []
        self.count = 0
        self.chance = random.Random(seed)

    @staticmethod
    def _open(dev):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        sock.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
        sock.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        sock.bind((dev, 0))
        sock.setblocking(False)
        return sock

    def rule_of(self, frame):
        ends = addresses(frame)
        return next((rule for rule in self.rules if any(end in rule.net for end in ends)), None)

    def take(self, end):
        """Takes frames that have come in by an end."""
        for _ in range(64):
            try:
                frame, (_, _, kind, *_) = self.ends[end].recvfrom(OFFLOADS_LEN + 65536)
            except BlockingIOError:
                return
            if kind == PACKET_OUTGOING:
                continue
            now = time.monotonic()
            rule = self.rule_of(frame[OFFLOADS_LEN:])
            due = rule.due(now, self.chance) if rule else now
            if due is not None:
                self.count += 1
                heapq.heappush(self.waiting, (due, self.count, 1 - end, frame))

    def send_due(self):
        """Sends what is due; seconds until more is."""
        while self.waiting:
            left = self.waiting[0][0] - time.monotonic()
            if left > 0:
                return left
            _, _, end, frame = heapq.heappop(self.waiting)
            try:
                self.ends[end].send(frame)
            except (BlockingIOError, OSError):
                # A link that is full, or down, loses frames.
                pass
        return None

    def run(self, control):
        poll = select.poll()
        for sock in (*self.ends, control):
            poll.register(sock, select.POLLIN)
        while True:
            left = self.send_due()
            ready = {fd for fd, _ in poll.poll(None if left is None else max(left * 1e3, 0))}
            for end, sock in enumerate(self.ends):
                if sock.fileno() in ready:
                    self.take(end)
            if control.fileno() in ready:
                asked, reply_to = control.recvfrom(65536)
                self.rules = [Rule(**rule) for rule in json.loads(asked)]
                control.sendto(b"done", reply_to)


class Impaired:
    """The middle of a lab as such a link; `set` changes its rules."""

    def __init__(self, mid, west="west", east="east"):
        self.control = mid.lab.tmp / "impair.sock"
        for dev in (west, east):
            mid.ip("link", "set", "dev", dev, "nomaster")
            mid.ip("link", "set", "dev", dev, "promisc", "on")
        self.process = mid.spawn(sys.executable, __file__, west, east, self.control)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(mid.lab.tmp / "impair-ask.sock"))
        self.sock.settimeout(10)
        deadline = time.monotonic() + 10
        while not self.control.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {self.control}: {self.process.log.read_text()}")
            time.sleep(0.01)

    def set(self, *rules):
        """Puts rules in place of those before, and returns when they hold."""
        self.sock.sendto(json.dumps(rules).encode(), str(self.control))
        assert self.sock.recv(64) == b"done"

    def close(self):
        self.sock.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("west", "east", "socket"):
        parser.add_argument(name)
    args = parser.parse_args()
    relay = Relay(args.west, args.east)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.bind(args.socket)
    os.chmod(args.socket, 0o600)
    relay.run(control)


if __name__ == "__main__":
    main()
