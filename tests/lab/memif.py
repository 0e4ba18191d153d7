"""A memif 2.0 client: an application that shares memory with a gateway, in Python.

Written from the protocol (VPP's and DPDK's `memif.h`, as crates/memif/src/message.rs has it as a table), with no line in common
with culvert's own client. One queue, Ethernet. The client owns the memory:

    region 0:  ring to the server | ring to the client | a buffer for each descriptor of both
"""

import array
import fcntl
import mmap
import os
import select
import socket
import struct

MESSAGE_LEN = 128
COOKIE = 0x3E31F20
VERSION = 0x0200

#: Types of messages.
ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT = range(1, 9)

#: Flag of a ring that leads to the server.
TO_SERVER = 1
#: Flag of a descriptor whose packet goes on in the next one.
NEXT = 1

_HEADER_LEN, _DESCRIPTOR = 128, struct.Struct("<HHIII")
_INDEX = struct.Struct("<H")
_LOG2_SIZE, _BUFFER_LEN = 8, 2048
_SIZE = 1 << _LOG2_SIZE
_RING_LEN = _HEADER_LEN + _DESCRIPTOR.size * _SIZE


class Refused(Exception):
    """The server ended the conversation."""


class _Ring:
    """A ring in shared memory, and its buffers."""

    def __init__(self, memory, at, buffers):
        self.memory, self.at, self.buffers = memory, at, buffers
        self.bell = os.eventfd(0, os.EFD_NONBLOCK)
        struct.pack_into("<IHH", memory, at, COOKIE, 0, 0)

    def _index(self, offset):
        return _INDEX.unpack(self.memory[self.at + offset : self.at + offset + _INDEX.size])[0]

    @property
    def head(self):
        return self._index(6)

    @head.setter
    def head(self, value):
        # At once: the other side looks at any time, and `pack_into` writes zeros first.
        self.memory[self.at + 6 : self.at + 6 + _INDEX.size] = _INDEX.pack(value & 0xFFFF)

    @property
    def tail(self):
        return self._index(64)

    def descriptor(self, index):
        """(flags, length, offset)"""
        at = self.at + _HEADER_LEN + index % _SIZE * _DESCRIPTOR.size
        flags, _, length, offset, _ = _DESCRIPTOR.unpack_from(self.memory, at)
        return flags, length, offset

    def give(self, index, length):
        """Writes a descriptor of the buffer that always belongs to it, and returns where that is."""
        at = self.at + _HEADER_LEN + index % _SIZE * _DESCRIPTOR.size
        offset = self.buffers + index % _SIZE * _BUFFER_LEN
        _DESCRIPTOR.pack_into(self.memory, at, 0, 0, length, offset, 0)
        return offset


class MemifClient:
    """Connected when it is made. Frames are sent by one thread and received by one."""

    def __init__(self, path, interface=0, secret=b"", name=b"application", holes=()):
        """``holes`` are the lengths of further regions, in none of which there is memory yet."""
        length = 2 * _RING_LEN + 2 * _SIZE * _BUFFER_LEN
        self.file = os.memfd_create("memif", os.MFD_ALLOW_SEALING)
        os.ftruncate(self.file, length)
        fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.memory = mmap.mmap(self.file, length)
        self.out = _Ring(self.memory, 0, 2 * _RING_LEN)
        self.into = _Ring(self.memory, _RING_LEN, 2 * _RING_LEN + _SIZE * _BUFFER_LEN)
        self.next = 0
        for index in range(_SIZE):
            self.into.give(index, _BUFFER_LEN)
        self.into.head = _SIZE
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Clients that left at once are taken up to 30 s apart.
        self.control.settimeout(40)
        self.control.connect(str(path))
        self._expect(HELLO)
        self._say(ACK, struct.pack("<HHIB24s32s", INIT, VERSION, interface, 0, secret, name))
        self._say(ACK, struct.pack("<HHQ", ADD_REGION, 0, length), self.file)
        self.holes = []
        for number, size in enumerate(holes, 1):
            file = os.memfd_create("holes", os.MFD_ALLOW_SEALING)
            self.holes.append(file)
            os.ftruncate(file, size)
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            self._say(ACK, struct.pack("<HHQ", ADD_REGION, number, size), file)
        for flags, at, ring in ((TO_SERVER, 0, self.out), (0, _RING_LEN, self.into)):
            self._say(ACK, struct.pack("<HHHHIBH", ADD_RING, flags, 0, 0, at, _LOG2_SIZE, 0), ring.bell)
        self._say(CONNECTED, struct.pack("<H32s", CONNECT, name))

    def _expect(self, kind):
        message = self.control.recv(MESSAGE_LEN)
        said = struct.unpack_from("<H", message)[0] if message else DISCONNECT
        if said != kind:
            raise Refused(f"memif: {message[6:].split(bytes(1))[0].decode(errors='replace')}")

    def _say(self, answer, message, file=None):
        passed = [] if file is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))]
        self.control.sendmsg([message.ljust(MESSAGE_LEN, b"\0")], passed)
        self._expect(answer)

    def send(self, frame):
        """Gives the server a frame; False if the ring is full."""
        head = self.out.head
        if (head - self.out.tail) & 0xFFFF >= _SIZE:
            return False
        offset = self.out.give(head, len(frame))
        self.memory[offset : offset + len(frame)] = frame
        self.out.head = head + 1
        os.eventfd_write(self.out.bell, 1)
        return True

    def send_from(self, region, offset, length):
        """The same of a frame that lies in a region of holes, wherever that is."""
        head = self.out.head
        if (head - self.out.tail) & 0xFFFF >= _SIZE:
            return False
        at = self.out.at + _HEADER_LEN + head % _SIZE * _DESCRIPTOR.size
        _DESCRIPTOR.pack_into(self.memory, at, 0, region, length, offset, 0)
        self.out.head = head + 1
        os.eventfd_write(self.out.bell, 1)
        return True

    def receive(self, timeout_s):
        """The frames that are there; waits so long for the first."""
        if self.next == self.into.tail:
            select.select([self.into.bell], [], [], timeout_s)
        try:
            os.eventfd_read(self.into.bell)
        except BlockingIOError:
            pass
        frames, parts, tail = [], [], self.into.tail
        while self.next != tail:
            flags, length, offset = self.into.descriptor(self.next)
            parts.append(self.memory[offset : offset + length])
            self.into.give(self.next, _BUFFER_LEN)
            self.next = (self.next + 1) & 0xFFFF
            if not flags & NEXT:
                frames.append(b"".join(parts))
                parts = []
        self.into.head = self.next + _SIZE
        return frames

    def close(self):
        """Ends the connection, which the server sees at once."""
        self.control.close()
        for file in (self.out.bell, self.into.bell, self.file, *self.holes):
            os.close(file)
