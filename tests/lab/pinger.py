"""ICMP echo with exact accounting.

The `ping` program stops waiting a moment after it has sent its last request once any answer came,
whatever -W says; on a busy machine that looks like loss. This one waits as long as it is told.
"""

import os
import select
import socket
import struct
import time

from .stream import MARK, SO_RCVBUFFORCE

IP_MTU_DISCOVER, IPV6_MTU_DISCOVER = 10, 23
PMTUDISC_DONT, PMTUDISC_DO = 0, 2
SO_MARK = 36

#: ICMP errors by (version, type); the code is added as a number.
ERRORS = {
    (4, 3): "destination unreachable", (4, 5): "redirect", (4, 11): "time exceeded",
    (4, 12): "parameter problem", (6, 1): "destination unreachable", (6, 2): "packet too big",
    (6, 3): "time exceeded", (6, 4): "parameter problem",
}  # fmt: skip


def ping(
    host, to, *, count=3, size=56, interval=0.02, df=None, source=None, wait=1, enough=None,
    until=lambda: False, noise=False, mark=0, dscp=0,
):
    """Sends `count` echo requests with `size` bytes each, `interval` seconds apart.

    Returns a dict: sent, received (requests that were answered), duplicates, errors (ICMP errors
    and refusals of the system, as text), times (round trips in seconds), each (when each request was
    sent, by the monotonic clock, and its round trip or None), text (for people).
    It ends when all are answered, or `enough` of them, or `wait` seconds after the last was sent;
    what was not sent by then is not counted. No more are sent once `until()` is true. `df`: True forbids
    fragmentation, False allows it, None leaves it to the system. `noise`: the bytes are random, so that
    nobody can compress them. An answer with other bytes than the request is an error. `mark` and `dscp`
    are those of the requests.
    """
    version = 6 if ":" in to else 4
    inet = socket.AF_INET6 if version == 6 else socket.AF_INET
    # By number: getprotobyname gives threads that ask at the same time each other's answers.
    protocol = socket.IPPROTO_ICMPV6 if version == 6 else socket.IPPROTO_ICMP
    with host.socket(inet, socket.SOCK_RAW, protocol) as sock:
        if df is not None:
            mode = PMTUDISC_DO if df else PMTUDISC_DONT
            if version == 4:
                sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, mode)
            else:
                sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, mode)
        if mark:
            sock.setsockopt(socket.SOL_SOCKET, SO_MARK, mark)
        if dscp and version == 4:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
        elif dscp:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        if source:
            sock.bind((source, 0))
        run = _Run(sock, version, to, count, size, enough or count)
        run.body = os.urandom(size) if noise else (MARK * (size // len(MARK) + 1))[:size]
        return run.go(interval, wait, until)


class _Run:
    def __init__(self, sock, version, to, count, size, enough):
        self.sock, self.version, self.to = sock, version, to
        self.count, self.size, self.enough = count, size, enough
        self.ident = struct.unpack("!H", os.urandom(2))[0]
        self.request, self.reply = (8, 0) if version == 4 else (128, 129)
        self.sent_at, self.times = {}, {}
        self.duplicates, self.errors = 0, []

    def go(self, interval, wait, until):
        start = time.monotonic()
        for number in range(self.count):
            self._listen(start + number * interval)
            if self._has_enough() or until():
                break
            self._send(number)
        end = time.monotonic() + wait
        while len(self.times) < min(self.enough, len(self.sent_at)) and time.monotonic() < end:
            self._listen(min(end, time.monotonic() + 0.05))
        self._listen(time.monotonic())
        lost = sorted(set(self.sent_at) - set(self.times))
        text = (
            f"ping {self.to}, {self.size} bytes: {len(self.sent_at)} sent, {len(self.times)} answered, "
            f"{self.duplicates} duplicates; unanswered: {lost[:10]}; errors: {self.errors[:5]}"
        )
        return {
            "sent": len(self.sent_at), "received": len(self.times), "duplicates": self.duplicates,
            "errors": self.errors, "times": list(self.times.values()), "text": text,
            "each": [(at, self.times.get(number)) for number, at in self.sent_at.items()],
        }  # fmt: skip

    def _send(self, number):
        body = self.body
        head = struct.pack("!BBHHH", self.request, 0, 0, self.ident, number)
        if self.version == 4:  # the kernel does it for ICMPv6
            head = struct.pack("!BBHHH", self.request, 0, _checksum(head + body), self.ident, number)
        self.sent_at[number] = time.monotonic()
        try:
            self.sock.sendto(head + body, (self.to, 0))
        except OSError as error:
            self.errors.append(f"not sent: {error.strerror}")

    def _listen(self, until):
        """Takes in what arrives until a point in time; at least what is there already."""
        while True:
            pause = max(0.0, until - time.monotonic())
            if not select.select([self.sock], [], [], pause)[0]:
                return
            try:
                data, peer = self.sock.recvfrom(65535)
            except OSError as error:
                self.errors.append(f"{error.strerror}")
                continue
            self._take(data[(data[0] & 15) * 4 :] if self.version == 4 else data, peer[0])
            if self._has_enough():
                return

    def _has_enough(self):
        return len(self.times) >= self.enough

    def _take(self, icmp, peer):
        if len(icmp) < 8:
            return
        kind, code, _, ident, number = struct.unpack_from("!BBHHH", icmp)
        if kind == self.reply and ident == self.ident:
            if icmp[8:] != self.body:
                self.errors.append(f"answer {number} has other bytes than its request")
            elif number in self.times:
                self.duplicates += 1
            elif number in self.sent_at:
                self.times[number] = time.monotonic() - self.sent_at[number]
        elif (self.version, kind) in ERRORS:
            self.errors.append(f"from {peer}: {ERRORS[self.version, kind]}, code {code}")


def _checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
