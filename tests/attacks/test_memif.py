"""An application at a memif port that lies: in messages, in rings, in descriptors, in its memory."""

import contextlib
import fcntl
import mmap
import os
import socket
import struct
import time

from lab import topology as t
from lab.attack import Health, effort
from lab.base import wait_for
from lab.inject import ether
from lab.memif import (
    ADD_REGION, ADD_RING, CONNECT, CONNECTED, COOKIE, HELLO, INIT, MESSAGE_LEN, NEXT, TO_SERVER, VERSION, MemifClient, Refused,
)  # fmt: skip
from lab.traffic import assert_ping
from scapy.layers.inet import ICMP, IP

APP4, GATE4 = "10.1.5.2", "10.1.5.1"
MIB = 1 << 20
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE = 1, 2

_MEMIF = """
[[port]]
interface = "app{number}"
kind = "memif"
socket = "{path}"
"""

#: Who leaves at once is taken less and less often, at each port for itself.
PORTS = 4


def scene(network, lab, ports=1):
    """A tunnel, and memif ports at gateway A."""
    paths = [lab.tmp / f"app{number}.sock" for number in range(ports)]
    net = network()
    text = "".join(_MEMIF.format(number=number, path=path) for number, path in enumerate(paths))
    net.gwa.daemon.write_config(net.gwa.daemon.config.read_text() + text)
    net.up()
    net.gwa.host.address("app0", f"{GATE4}/24")
    assert_ping(net.client, t.SERVER4, count=3)
    return net, paths


def row(net):
    return next(port for port in net.gwa.daemon.json("port") if port["interface"] == "app0")


def memory(length):
    """A sealed file of memory, sparse."""
    file = os.memfd_create("memif", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, length)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return file


def honest(net, path):
    """The next client is served: a frame of its is taken."""
    wait_for("the port to be free", lambda: row(net)["state"].startswith("no client"))
    client = MemifClient(path)
    wait_for("the connection", lambda: row(net)["state"].startswith("up"))
    before = row(net)["rx_packets"]
    packet = IP(src=APP4, dst=GATE4) / ICMP()

    def is_taken():
        client.send(ether("02:00:00:00:05:02", net.gwa.host.mac("app0"), packet))
        return row(net)["rx_packets"] > before

    wait_for("a frame of an honest client", is_taken)
    client.close()
    wait_for("the port to be free", lambda: row(net)["state"].startswith("no client"))


def test_messages_that_cannot_be(network, lab, rng):
    """Attacker: a program that may connect. He sends messages in every order and with every number, cut, too long, with no
    descriptor, one, several, and ones of the wrong kind; and many connections that say nothing.

    Each ends with its own connection; the application at another port is served, no descriptor is left, the tunnel's pings are
    answered.
    """
    net, paths = scene(network, lab, PORTS)
    path = paths[0]
    honest(net, path)
    health = Health(net.gwa.daemon)
    files = [memory(1 << 20), os.memfd_create("open"), os.eventfd(0), os.open("/dev/null", os.O_RDWR), os.open("/", os.O_RDONLY)]
    numbers = (0, 1, 2, 7, 8, 63, 64, 255, 256, 4095, 65535)
    wide = (0, 1, 4096, 65536, 1 << 20, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
    ended = 0
    for number in range((PORTS - 1) * effort(4, 8)):
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as link:
            link.settimeout(60)
            link.connect(str(paths[1 + number % (PORTS - 1)]))
            assert struct.unpack_from("<H", link.recv(MESSAGE_LEN))[0] == HELLO
            # Most begin well, so that what follows is looked at.
            messages = [struct.pack("<HHIB24s32s", INIT, VERSION, 0, 0, b"", b"liar")] if rng.random() < 0.9 else []
            for _ in range(rng.randrange(1, 8)):
                kind = rng.choice((ADD_REGION, ADD_RING, CONNECT, INIT, rng.randrange(12)))
                body = struct.pack("<HQ", rng.choice(numbers), rng.choice(wide))
                if kind == ADD_RING:
                    offset, log2 = rng.choice(wide[:7]), rng.choice((0, 4, 8, 10, 14, 15, 31, 255))
                    which = rng.choice(numbers[:3]), rng.choice(numbers), rng.choice(numbers[:4])
                    body = struct.pack("<HHHIBH", *which, offset, log2, rng.choice((0, 0, 8, 65535)))
                if rng.random() < 0.3:
                    body = rng.randbytes(MESSAGE_LEN - 2)
                messages.append(struct.pack("<H", kind) + body)
            try:
                for message in messages:
                    length = MESSAGE_LEN if rng.random() < 0.95 else rng.choice((0, 1, 127, 129, 4096))
                    passed = rng.choices(files, k=rng.choice((0, 1, 1, 1, 2, 8)))
                    socket.send_fds(link, [message.ljust(length, b"\0")[: max(1, length)]], passed)
                    if struct.unpack_from("<H", link.recv(MESSAGE_LEN).ljust(2, b"\0"))[0] in (0, 8):
                        break
            except (OSError, TimeoutError):
                pass
            ended += 1
    silent = []
    for number in range(effort(60, 500)):
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.setblocking(False)
        with contextlib.suppress(OSError):
            link.connect(str(paths[1 + number % (PORTS - 1)]))
        silent.append(link)
    assert_ping(net.client, t.SERVER4, count=5)
    for link in silent:
        link.close()
    for file in files:
        os.close(file)
    honest(net, path)
    assert_ping(net.client, t.SERVER4, count=5)
    health.check(16 * MIB)
    print(f"{ended} conversations")


class Liar(MemifClient):
    """A client whose rings say what they like."""

    def scribble(self, rng):
        """Changes descriptors, and gives some of them."""
        for _ in range(rng.randrange(1, 20)):
            ring = rng.choice((self.out, self.into))
            at = ring.at + 128 + 16 * rng.randrange(256)
            length = rng.choice((0, 1, 13, 60, 1500, 2048, 65535, 1 << 31, (1 << 32) - 1))
            offset = rng.choice((0, 4096, ring.buffers, len(self.memory) - 1, len(self.memory), (1 << 32) - 1, rng.getrandbits(32)))
            flags = rng.choice((0, NEXT, NEXT, 0xFFFF))
            struct.pack_into("<HHIII", self.memory, at, flags, rng.choice((0, 0, 1, 65535)), length, offset, 0)
        room = 256 - ((self.out.head - self.out.tail) & 0xFFFF)
        if room > 0:
            self.out.head = self.out.head + rng.randrange(room + 1)
        for ring in (self.out, self.into):
            with contextlib.suppress(BlockingIOError):
                os.eventfd_write(ring.bell, 1)

    def index(self, rng):
        """Sets heads, tails, flags or cookies to what cannot be."""
        for ring in (self.out, self.into):
            kind = rng.randrange(3)
            if kind == 0:
                ring.head = ring.head + rng.choice((257, 1000, 32768, 65535))
            elif kind == 1:
                struct.pack_into("<H", self.memory, ring.at + 64, rng.getrandbits(16))
            else:
                struct.pack_into("<IH", self.memory, ring.at, rng.choice((COOKIE, 0)), rng.getrandbits(16))
            with contextlib.suppress(BlockingIOError):
                os.eventfd_write(ring.bell, 1)


def test_rings_that_lie(network, lab, rng):
    """Attacker: a connected application. It moves heads by more than the ring, sets tails, has chains of descriptors without
    end, offsets and lengths beyond its memory, regions that are none, fills eventfds, punches holes into the memory that is
    read, and closes in between.

    Its own frames are lost at most: the tunnel's pings are answered, and the next application is served.
    """
    net, (path,) = scene(network, lab)
    honest(net, path)
    health = Health(net.gwa.daemon)
    rounds, connections = 0, effort(3, 8)
    for _ in range(connections):
        wait_for("the port to be free", lambda: row(net)["state"].startswith("no client"))
        client = Liar(path)
        end = time.monotonic() + effort(1, 6)
        while time.monotonic() < end:
            client.scribble(rng)
            rounds += 1
            if rng.random() < 0.1:
                punch(client.file, rng.randrange(0, len(client.memory), 4096), rng.choice((4096, 65536, len(client.memory))))
            if rng.random() < 0.05:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_write(client.out.bell, 2**64 - 2)
            if rounds % 100 == 0:
                assert_ping(net.client, t.SERVER4, count=1)
        client.index(rng)
        assert_ping(net.client, t.SERVER4, count=1)
        client.close()
    assert rounds > 60
    assert row(net).get("faults"), row(net)
    honest(net, path)
    health.check(16 * MIB)
    print(f"{rounds} lies in {connections} connections: {row(net)['faults']}")


def punch(file, offset, length):
    """Gives pages of a file back."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    call = libc.fallocate
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    call(file, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, offset, length)


def test_memory_without_end(network, lab):
    """Attacker: an application that offers as much sparse memory as the server takes, and has it read a byte of each of its
    pages, so that they come into being in the daemon.

    The daemon refuses what no ring can need, or reads it and grows by no more than rings hold.
    """
    net, (path,) = scene(network, lab)
    honest(net, path)
    health = Health(net.gwa.daemon)
    rings, region = 1 << 20, 256 * MIB
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as link:
        link.settimeout(10)
        link.connect(str(path))
        link.recv(MESSAGE_LEN)

        def say(message, file=None):
            socket.send_fds(link, [message.ljust(MESSAGE_LEN, b"\0")], [] if file is None else [file])
            kind = struct.unpack_from("<H", link.recv(MESSAGE_LEN).ljust(2, b"\0"))[0]
            if kind not in (1, CONNECTED):
                raise Refused(kind)

        files = [memory(rings)]
        bell = os.eventfd(0, os.EFD_NONBLOCK)
        view = mmap.mmap(files[0], rings)
        for at in (0, 65536):
            struct.pack_into("<IHH", view, at, COOKIE, 0, 0)
        say(struct.pack("<HHIB24s32s", INIT, VERSION, 0, 0, b"", b"glutton"))
        say(struct.pack("<HHQ", ADD_REGION, 0, rings), files[0])
        taken = 0
        try:
            for number in range(1, 16):
                files.append(memory(region))
                say(struct.pack("<HHQ", ADD_REGION, number, region), files[-1])
                taken += 1
            for flags, at in ((TO_SERVER, 0), (0, 65536)):
                say(struct.pack("<HHHHIBH", ADD_RING, flags, 0, 0, at, 10, 0), bell)
            say(struct.pack("<H32s", CONNECT, b"glutton"))
        except (Refused, OSError):
            # It says so, and ends the conversation.
            taken = 0
        head = page = 0
        pages = taken * (region // 4096)
        while page < min(pages, effort(60_000, 400_000)):
            if (head - struct.unpack_from("<H", view, 64)[0]) & 0xFFFF >= 1024:
                time.sleep(0.0005)
                continue
            descriptor = struct.pack("<HHIII", 0, 1 + page * 4096 // region, 60, page * 4096 % region, 0)
            at = 128 + head % 1024 * 16
            view[at : at + 16] = descriptor
            head, page = head + 1 & 0xFFFF, page + 1
            struct.pack_into("<H", view, 6, head)
            os.eventfd_write(bell, 1)
        assert_ping(net.client, t.SERVER4, count=3)
        assert health.growth() < 64 * MIB, f"{health.growth() // MIB} MiB more for {taken} regions of {region // MIB} MiB"
        print(f"{taken} regions taken, {page} pages read, {health.growth() // 1024} KiB more")
    for file in (*files, bell):
        os.close(file)
    honest(net, path)
    health.check(64 * MIB)
