"""A program on a terminal."""

import fcntl
import os
import pty
import select
import struct
import termios
import time

import pytest

from .base import wait_for

LINES, COLUMNS = 24, 80


class Terminal:
    """A program on a terminal, whose screen another's emulator keeps."""

    def __init__(self, host, *argv, lines=LINES, columns=COLUMNS):
        pyte = pytest.importorskip("pyte")
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            argv = [str(arg) for arg in host.argv(*argv)]
            os.execvp(argv[0], argv)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def lines(self):
        """The screen as it is by now."""
        while select.select([self.fd], [], [], 0.05)[0]:
            try:
                self.stream.feed(os.read(self.fd, 65536))
            except OSError:
                break
        return self.screen.display

    def shows(self, *texts):
        return all(any(text in line for line in self.lines()) for text in texts)

    def wait(self, *texts):
        try:
            wait_for(f"{texts} on the screen", lambda: self.shows(*texts))
        except Exception as error:
            raise AssertionError("\n".join(self.lines())) from error

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def status(self):
        """How it ended."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            self.lines()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("it does not end")
