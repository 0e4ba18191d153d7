"""User planes: the applications of the modems, and their peer in the core network.

A `Peer` is one end of GTP-U. It answers what comes (an echo request, and each G-PDU that is a question) and can ask itself.
What it stands on is a socket of Linux, or memory that it shares with culvert (`OverMemif`): culvert sees an application of
which it knows nothing but packets.
"""

import ipaddress
import select
import socket
import struct
import threading
import time
from collections import Counter

from ..base import LabError
from ..memif import MemifClient
from ..stream import MARK
from . import gtpu

#: A question and its answer, what a user's packet is here: kind, number, and a mark that captures are searched for.
_BODY = struct.Struct("!cI")
_ASK, _ANSWER = b"?", b"!"

#: Of an uplink TEID, from the downlink TEID of the same user: each end gives out its own numbers.
UPLINK = 0x80000000

#: Questions that wait for an answer at a time: less than any queue on the way holds.
_MOST = 8


class OverLinux:
    """GTP-U by a socket of a host."""

    def __init__(self, host, address):
        self.address = address
        self.socket = host.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)  # SO_RCVBUFFORCE
        self.socket.bind((address, gtpu.PORT))

    def send(self, to, data):
        self.socket.sendto(data, (to, gtpu.PORT))

    def receive(self, timeout_s):
        """[(from, data)]"""
        if not select.select([self.socket], [], [], timeout_s)[0]:
            return []
        try:
            data, (source, _) = self.socket.recvfrom(4096)
        except OSError:
            # An ICMP error, or closed.
            return []
        return [(source, data)]

    def close(self):
        self.socket.close()


class OverMemif:
    """GTP-U in Ethernet frames, by memory that is shared with culvert."""

    def __init__(self, path, address, mac, gateway_mac):
        self.address = address
        self.mac, self.gateway = (bytes.fromhex(m.replace(":", "")) for m in (mac, gateway_mac))
        self.port = MemifClient(path)
        #: Frames that were not GTP-U to this address.
        self.others = 0
        self.number = 0

    def send(self, to, data):
        udp = struct.pack("!HHHH", gtpu.PORT, gtpu.PORT, 8 + len(data), 0)
        self.number = self.number + 1 & 0xFFFF
        ends = (ipaddress.IPv4Address(self.address).packed, ipaddress.IPv4Address(to).packed)
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(data), self.number, 0, 64, 17, 0, *ends)
        ip = ip[:10] + struct.pack("!H", _checksum(ip)) + ip[12:]
        if not self.port.send(self.gateway + self.mac + b"\x08\x00" + ip + udp + data):
            raise LabError("the ring to culvert is full")

    def receive(self, timeout_s):
        found = []
        for frame in self.port.receive(timeout_s):
            header = 14 + (frame[14] & 15) * 4
            mine = frame[12:14] == b"\x08\x00" and frame[23] == 17
            if mine and struct.unpack_from("!H", frame, header + 2)[0] == gtpu.PORT:
                length = struct.unpack_from("!H", frame, header + 4)[0]
                found.append((str(ipaddress.IPv4Address(frame[26:30])), frame[header + 8 : header + length]))
            else:
                self.others += 1
        return found

    def close(self):
        self.port.close()


def _checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


class Peer:
    """One end of GTP-U, in a thread of its own until `close`."""

    def __init__(self, lab, transport):
        self.transport = transport
        #: G-PDUs that came, by TEID.
        self.received = Counter()
        #: What came and was no GTP-U that it knows.
        self.unknown = 0
        #: When each answer came, by number.
        self._answers = {}
        self._numbers = 0
        self._arrived = threading.Condition()
        self._ends = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        lab.at_close(self.close)

    @property
    def address(self):
        return self.transport.address

    def _serve(self):
        while not self._ends:
            for source, data in self.transport.receive(0.2):
                self._take(source, data)

    def _take(self, source, data):
        found = gtpu.parse(data)
        if found is None:
            self.unknown += 1
            return
        kind, teid, payload = found
        if kind == gtpu.ECHO_REQUEST:
            self.transport.send(source, gtpu.packet(0, b"\x0e\x00", gtpu.ECHO_RESPONSE))
            return
        if kind != gtpu.G_PDU or len(payload) < _BODY.size:
            self.unknown += kind != gtpu.ECHO_RESPONSE
            return
        self.received[teid] += 1
        what, number = _BODY.unpack_from(payload)
        if what == _ASK:
            # The user's answer goes by the other tunnel of the pair.
            self.transport.send(source, gtpu.packet(teid ^ UPLINK, _BODY.pack(_ANSWER, number) + payload[_BODY.size :]))
            return
        with self._arrived:
            self._answers.setdefault(number, time.monotonic())
            self._arrived.notify()

    def ask(self, to, teid, count, size=200, rate=1000, most=_MOST, patience_s=10):
        """Sends questions into one tunnel, and waits for their answers: an `Exchange`. The second waits for the first's
        answer, and no more than `most` wait for one at a time; where none comes it ends early."""
        first, self._numbers = self._numbers, self._numbers + count
        sent = {}
        begun = time.monotonic()
        for number in range(first, first + count):
            with self._arrived:
                room = most if len(sent) > 1 else 1
                if not self._arrived.wait_for(lambda: self._open(sent) < room, patience_s):
                    break
            wait = begun + (number - first) / rate - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            body = _BODY.pack(_ASK, number) + MARK
            sent[number] = time.monotonic()
            self.transport.send(to, gtpu.packet(teid, body.ljust(size, b".")))
        with self._arrived:
            self._arrived.wait_for(lambda: not self._open(sent), patience_s)
            return Exchange(sent, {n: t for n, t in self._answers.items() if n in sent})

    def _open(self, sent):
        return sum(number not in self._answers for number in sent)

    def close(self):
        if not self._ends:
            self._ends = True
            self._thread.join(5)
            self.transport.close()


class Exchange:
    """Questions with the times of their answers."""

    def __init__(self, sent, answers):
        self.sent = sent
        #: Seconds to the answer, by number.
        self.delays = {number: answers[number] - sent[number] for number in sorted(answers)}
        #: When the first was sent, by the monotonic clock.
        self.begun = min(sent.values())

    @property
    def lost(self):
        return len(self.sent) - len(self.delays)

    @property
    def first_s(self):
        return next(iter(self.delays.values()), None)

    @property
    def median_s(self):
        return sorted(self.delays.values())[len(self.delays) // 2] if self.delays else None
