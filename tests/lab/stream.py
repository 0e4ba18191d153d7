#!/usr/bin/python3
"""A numbered UDP stream: sends at a steady rate, counts what is lost, doubled or out of order.

Runs alone (this file needs nothing but Python). `echo` answers what it gets and counts it;
`probe` sends, hears the answers, and counts them. Both print one JSON object at their end.

    stream.py echo  --port 7000
    stream.py probe --to 10.2.0.10 --port 7000 --rate 1000 --seconds 5 --size 200

Each datagram starts with a 16-byte header, network byte order: stream id (8), number (8). The rest
is a marker that a capture can search for: what is seen of it outside the tunnel has leaked.
"""

import argparse
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time

HEADER = struct.Struct("!QQ")
MARK = b"CLEARTEXT-OF-CULVERT-TESTS;"
MIN_SIZE = HEADER.size

#: linux/asm-generic/socket.h; Python has no name for it.
SO_RCVBUFFORCE = 33

#: The most that a probe sends at once when it is late: less than any queue on the way holds.
MOST_AT_ONCE = 8

#: After this many seconds without an answer a packet is no longer under way.
GIVEN_UP_S = 2.0


class UnderWay:
    """How many packets a probe has sent that may still be answered."""

    def __init__(self, most, seen):
        #: 0: as many as there are.
        self.most, self.seen = most, seen
        self.sent_at = []
        self.first = 0

    def send(self):
        self.sent_at.append(time.monotonic())

    def room(self):
        """How many more may be sent now."""
        if not self.most:
            return MOST_AT_ONCE
        old = time.monotonic() - GIVEN_UP_S
        while self.first < len(self.sent_at) and (self.first in self.seen or self.sent_at[self.first] < old):
            self.first += 1
        under_way = sum(number not in self.seen for number in range(self.first, len(self.sent_at)))
        return max(self.most - under_way, 0)


class Counter:
    """What arrived, by number."""

    def __init__(self):
        self.seen = {}
        self.highest = -1
        self.reordered = 0
        #: The first that came late: number, and the highest before it.
        self.first_late = []
        self.total = 0

    def add(self, number):
        self.total += 1
        self.seen[number] = self.seen.get(number, 0) + 1
        if number < self.highest:
            self.reordered += 1
            if len(self.first_late) < 10:
                self.first_late.append([number, self.highest])
        self.highest = max(self.highest, number)

    def report(self, sent=None):
        unique = len(self.seen)
        expected = sent if sent is not None else self.highest + 1
        missing = [n for n in range(expected) if n not in self.seen] if unique < expected else []
        return {
            "received": unique,
            "lost": len(missing),
            "first_lost": missing[:10],
            "gaps": _gaps(missing)[:40],
            "longest_gap": _longest_run(missing),
            "duplicated": self.total - unique,
            "reordered": self.reordered,
            "first_late": self.first_late,
        }


def _gaps(missing):
    """Where numbers are missing: [first, how many] of each run."""
    gaps = []
    for number in missing:
        if gaps and number == sum(gaps[-1]):
            gaps[-1][1] += 1
        else:
            gaps.append([number, 1])
    return gaps


def _longest_run(numbers):
    longest = run = 0
    previous = None
    for number in numbers:
        run = run + 1 if previous is not None and number == previous + 1 else 1
        longest, previous = max(longest, run), number
    return longest


def _socket(address, port, bind):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    # Seconds of a stream: the reader may have to wait for a processor that long. As root: the
    # limit that the system sets may be tens of milliseconds.
    option = SO_RCVBUFFORCE if os.geteuid() == 0 else socket.SO_RCVBUF
    sock.setsockopt(socket.SOL_SOCKET, option, 16 << 20)
    if bind:
        sock.bind((address, port))
    else:
        sock.connect((address, port))
    sock.setblocking(False)
    return sock


class Ending:
    """SIGTERM or SIGINT: report and leave. Looked at between two steps, so that each is whole."""

    asked = False

    @classmethod
    def ask(cls, *_):
        cls.asked = True


class Release(Ending):
    """SIGUSR1: a stream that is held goes on."""


def echo(args):
    """Answers until a signal comes; reports per stream id."""
    counters = {}
    sockets = [_socket("0.0.0.0", args.port, True), _socket("::", args.port + 1, True)]
    selector = selectors.DefaultSelector()
    for sock in sockets:
        selector.register(sock, selectors.EVENT_READ)
    print("ready", flush=True)
    is_last = False
    while not is_last:
        # Once more after the signal: what has arrived counts.
        is_last = Ending.asked
        for key, _ in selector.select(0 if is_last else 0.05):
            while True:
                try:
                    data, peer = key.fileobj.recvfrom(65535)
                except BlockingIOError:
                    break
                except OSError:
                    continue  # the ICMP error of an earlier answer
                if len(data) < HEADER.size:
                    continue
                stream, number = HEADER.unpack_from(data)
                counters.setdefault(stream, Counter()).add(number)
                try:
                    key.fileobj.sendto(data, peer)
                except OSError:
                    pass  # an ICMP error or a full queue: the probe counts the loss
    print(json.dumps({str(s): c.report() for s, c in counters.items()}), flush=True)


def probe(args):
    """Sends, listens, and reports what came back."""
    port = args.port + 1 if ":" in args.to else args.port
    sock = _socket(args.to, port, False)
    filler = (MARK * (args.size // len(MARK) + 1))[: args.size - HEADER.size]
    counter, sent, errors = Counter(), 0, 0
    start = time.monotonic()
    end = start + args.seconds if args.seconds else float("inf")
    gap = 1.0 / args.rate

    def hear():
        nonlocal errors
        while True:
            try:
                data = sock.recv(65535)
            except BlockingIOError:
                return
            except OSError:
                errors += 1
                continue
            if len(data) >= HEADER.size:
                stream, number = HEADER.unpack_from(data)
                if stream == args.stream:
                    counter.add(number)

    under_way = UnderWay(args.most, counter.seen)
    print("ready", flush=True)
    while not Ending.asked and time.monotonic() < end and (not args.count or sent < args.count):
        # A late wake-up catches up with the clock, so the rate holds, but not in one go: that
        # would be a flood.
        due = min(int((time.monotonic() - start) / gap) + 1, args.count or 1 << 62)
        room = under_way.room()
        if sent and (args.alone and not counter.seen or args.held and not Release.asked):
            room = 0
        if room == 0:
            # A machine that is busy gets no more until it has answered; what was due meanwhile is not caught up.
            start = time.monotonic() - sent * gap
        for _ in range(min(due - sent, MOST_AT_ONCE, room)):
            try:
                sock.send(HEADER.pack(args.stream, sent) + filler)
                sent += 1
                under_way.send()
            except BlockingIOError:
                break
            except OSError:
                # An ICMP error of an earlier packet: it is reported here, this one did not go.
                errors += 1
                break
        hear()
        pause = start + sent * gap - time.monotonic()
        time.sleep(min(max(pause, 0.0005), 0.05))
    # Until nothing more has come for a while.
    heard, last = counter.total, time.monotonic() + args.linger
    while time.monotonic() < last and len(counter.seen) < sent:
        hear()
        if counter.total != heard:
            heard, last = counter.total, time.monotonic() + args.linger
        time.sleep(0.005)
    report = counter.report(sent)
    print(json.dumps({"stream": args.stream, "sent": sent, "errors": errors, **report}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    sub = parser.add_subparsers(required=True)
    server = sub.add_parser("echo")
    server.add_argument("--port", type=int, required=True)
    server.set_defaults(run=echo)
    client = sub.add_parser("probe")
    client.add_argument("--to", required=True)
    client.add_argument("--port", type=int, required=True)
    client.add_argument("--rate", type=float, default=1000, help="packets per second")
    client.add_argument("--count", type=int, default=0, help="packets in all (0: until the end)")
    client.add_argument("--seconds", type=float, default=0, help="0: until a signal or --count")
    client.add_argument("--size", type=int, default=200, help="UDP payload in bytes")
    client.add_argument("--most", type=int, default=0, help="packets that wait for an answer (0: no limit)")
    client.add_argument("--alone", action="store_true", help="nothing goes before the first one is answered")
    client.add_argument("--held", action="store_true", help="nothing goes behind the first one before SIGUSR1")
    client.add_argument("--stream", type=int, default=1, help="stream id")
    client.add_argument("--linger", type=float, default=3.0, help="seconds of silence to wait")
    client.set_defaults(run=probe)
    args = parser.parse_args()
    if getattr(args, "size", MIN_SIZE) < MIN_SIZE:
        parser.error(f"--size: at least {MIN_SIZE}")
    signal.signal(signal.SIGTERM, Ending.ask)
    signal.signal(signal.SIGINT, Ending.ask)
    signal.signal(signal.SIGUSR1, Release.ask)
    args.run(args)


if __name__ == "__main__":
    sys.exit(main())
