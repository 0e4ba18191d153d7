"""What the daemon tells the service manager, while its workers go on and while one stands still."""

import ctypes
import os
import socket
import time
from pathlib import Path

from lab import topology as t
from lab.base import wait_for
from lab.traffic import assert_ping

#: What the manager waits for a sign of life; one comes twice as often.
PATIENCE_S = 2.0

#: ptrace(2)
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17


class Manager:
    """The manager's end of $NOTIFY_SOCKET."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        os.chmod(path, 0o666)

    def signs(self, seconds):
        """How many signs of life come in a time; those that wait already do not count."""
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.recv(4096)
        except BlockingIOError:
            pass
        count, until = 0, time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                count += b"WATCHDOG=1" in self.socket.recv(4096).split(b"\n")
            except TimeoutError:
                break
        return count


class Held:
    """A thread that stands still, and no other of its process: as a tracer holds it."""

    def __init__(self, thread):
        self.thread = thread
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def _ptrace(self, request):
        assert self.libc.ptrace(request, self.thread, None, None) == 0, os.strerror(ctypes.get_errno())

    def __enter__(self):
        self._ptrace(SEIZE)
        self._ptrace(INTERRUPT)
        # __WALL: it is no child.
        os.waitpid(self.thread, 0x40000000)
        return self

    def __exit__(self, *_):
        self._ptrace(DETACH)


def worker_threads(pid):
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(thread.name) for thread in threads if (thread / "comm").read_text().startswith("culvert-w")]


def test_signs_of_life_are_those_of_the_workers(network):
    net = network()
    daemon = net.gwa.daemon
    path = net.gwa.host.lab.tmp / "notify"
    manager = Manager(path)
    daemon.environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": str(int(PATIENCE_S * 1e6))}
    net.up()
    # Without packets, and with some.
    assert manager.signs(3 * PATIENCE_S) >= 3
    assert_ping(net.client, t.SERVER4, count=5)
    assert manager.signs(3 * PATIENCE_S) >= 3
    threads = worker_threads(daemon.process.pid)
    assert threads, [(p / "comm").read_text() for p in Path(f"/proc/{daemon.process.pid}/task").iterdir()]
    with Held(threads[-1]):
        # The control thread answers as ever.
        assert daemon.json("status")["sas"] == 2
        # One may have been on its way.
        assert manager.signs(PATIENCE_S) <= 1
        assert manager.signs(2 * PATIENCE_S) == 0
    wait_for("a sign of life", lambda: manager.signs(PATIENCE_S) > 0)
    assert_ping(net.client, t.SERVER4, count=3)


def test_without_a_manager_there_is_nobody_to_tell(network):
    net = network()
    path = net.gwa.host.lab.tmp / "notify"
    manager = Manager(path)
    net.gwa.daemon.environment = {"NOTIFY_SOCKET": str(path)}
    net.up()
    assert manager.signs(2 * PATIENCE_S) == 0
