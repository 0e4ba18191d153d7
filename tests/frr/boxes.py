"""Commands with processes, network and mounts of their own, of which nothing outlives this program."""

import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path

from lab.base import LabError
from lab.host import _WITH_MAKER

#: A box. Its processes do not outlive `unshare`, which does not outlive the thread that started it. What culvert writes at run time is
#: on a file system that ends with them. The first process, a shell, takes the status of those whose parents have ended: others wait for
#: their end.
_BOX = [
    "unshare", "--pid", "--mount", "--net", "--fork", "--mount-proc", "--kill-child",
    "/bin/sh", "-c", 'mkdir -p /run/culvert && mount -t tmpfs tmpfs /run/culvert || exit; "$@"; exit $?', "box",
]  # fmt: skip


class Boxes:
    """The boxes with a command that runs, each in a thread of its caller's."""

    def __init__(self):
        self._lock = threading.Lock()
        self._running = set()
        self._is_closed = False

    def run(self, argv, bound_s, **how):
        """Runs a command to its end. A LabError says that it takes longer than `bound_s`, or that all were ended."""
        with self._lock:
            if self._is_closed:
                raise LabError("interrupted")
            process = subprocess.Popen([*_WITH_MAKER, str(os.getpid()), *_BOX, *map(str, argv)], **how)
            self._running.add(process)
        try:
            process.wait(bound_s)
        except subprocess.TimeoutExpired:
            raise LabError(f"no end after {bound_s} s") from None
        finally:
            with self._lock:
                self._running.discard(process)
            _end(process)
        if self._is_closed:
            raise LabError("interrupted")

    def close(self):
        """Ends all that run. None begins any more."""
        with self._lock:
            self._is_closed = True
            running = list(self._running)
        for process in running:
            _end(process)


def _end(process):
    """Returns when no process of a box is there: `unshare` ends after its child, and that after all that have it as their first process."""
    while process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in children or [process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
