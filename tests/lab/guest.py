"""A guest: a host of the lab with a Linux kernel of its own, which does ESP.

The kernel is one for User Mode Linux (`make kernel`), a process like any other. Its root is the
machine's own, read-only, under an overlay in memory; it shares one folder with the lab, the lab's
own, at the same path. So everything that is installed here runs there, unmodified. It boots in about
a second, and a command takes some 30 ms.

A guest stands in a namespace of the lab, its `box`, and takes over interfaces there: what reaches
them reaches the guest. It dies with its lab, and with the process that made it.
"""

import contextlib
import functools
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from pathlib import Path

from .base import PATIENCE_S, CommandFailed, LabError, wait_for
from .host import Host

ROOT = Path(__file__).resolve().parents[2]

#: What the guest runs first, and its agent.
INIT = ROOT / "tests/kernel/init"

#: Starts a kernel in a PID namespace: with the first process there, all of its others end. They
#: are not its children for the machine, and would stay when it is killed.
_ALONE = ("unshare", "--pid", "--fork", "--kill-child", "sh", "-c", '"$@"; exit', "sh")

#: Set in the environment of what runs in a guest and must not look for another.
GUEST_MARK = "CULVERT_IN_GUEST"

#: Kernels in build/kernel, the one to prefer first.
KERNELS = ("linux-6.12", "linux-7.2", "prebuilt/usr/bin/linux.uml")


def kernel_image():
    """The guest kernel: $CULVERT_KERNEL, or the first of those that were made and boot here. May not exist."""
    if os.environ.get("CULVERT_KERNEL"):
        return Path(os.environ["CULVERT_KERNEL"]).resolve()
    made = [ROOT / "build/kernel" / name for name in KERNELS]
    there = [path for path in made if os.access(path, os.X_OK)]
    booting = (path for path in there if not refusal(path))
    return next(booting, (there or made)[0])


def kernel_missing():
    """Why there can be no guest; an empty text when there can."""
    image = kernel_image()
    if not os.access(image, os.X_OK):
        return f"{image} is not there (make kernel, or make kernel PREBUILT=1)"
    if why := refusal(image):
        return f"{image} does not boot on this processor: {why} (make kernel VERSION=7.2)"
    return ""


@functools.cache
def refusal(image):
    """Why a kernel does not boot on this processor, in a line; an empty text when it does. It takes a second.

    Linux 6.1 panics where the processor has more registers than its buffer has room for (AMX).
    """
    arguments = "mem=64M con=null con0=null,fd:1 root=/dev/root rootfstype=hostfs rootflags=/ ro init=/bin/true"
    environment = {**os.environ, "TMPDIR": "/dev/shm"}
    try:
        # Its processes are in a group of their own, which ends as a whole.
        process = subprocess.Popen(
            [image, *arguments.split()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment, start_new_session=True, text=True, errors="replace",
        )  # fmt: skip
    except OSError as error:
        return str(error)
    try:
        said, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        said = f"no word for {PATIENCE_S:g} seconds"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    # Its first program ends at once, with success, and it panics for want of another.
    return "" if "exitcode=0x00000000" in said else last_words(said)


def last_words(said):
    """The line of a kernel's output that says why it ended."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"errno|Kernel panic", line)]
    return (telling or lines[-1:] or ["without a word"])[0]


def culvert_guest_missing():
    """Why culvert cannot run in a guest; an empty text when it can."""
    if _modules(kernel_image()):
        return f"{kernel_image()} has no AF_XDP (make kernel)"
    return kernel_missing()


def _modules(kernel):
    """The folder with the modules of Debian's own kernel; None for one that has all built in."""
    folder = Path(kernel).parents[1] / "lib/uml/modules"
    return folder if folder.is_dir() else None


class Guest(Host):
    """A kernel of its own. Made with its box; `start` boots it.

    `run`, `spawn`, `ip`, `sysctl`, `address` and `route` act inside the guest.
    """

    def __init__(self, lab, name, kernel=None, memory_mb=512, processors=1):
        self.box = lab.host(name)
        super().__init__(lab, name, self.box.ns)
        self.etc = lab.tmp / f"{name}-etc"
        self.etc.mkdir()
        self.kernel = Path(kernel).resolve() if kernel else kernel_image()
        self.memory_mb = memory_mb
        self.processors = processors
        self.process = None
        #: Commands and their results; one folder per boot.
        self.folder = None
        self._boots = itertools.count(1)
        self._copies = itertools.count(1)
        self._numbers = None
        self._submit = threading.Lock()
        # The kernel of the machine has no say on the guest's interfaces.
        self.box.sysctl("net.ipv6.conf.all.disable_ipv6", 1)
        self.box.sysctl("net.ipv6.conf.default.disable_ipv6", 1)

    # Life

    def start(self, *interfaces, wait=True):
        """Boots it. Interfaces of the box become its own, under their names."""
        missing = "" if os.access(self.kernel, os.X_OK) else f"{self.kernel} is not there"
        if missing:
            raise LabError(f"{self.name}: {missing}: make kernel, or make kernel PREBUILT=1")
        self.folder = self.lab.tmp / f"{self.name}-agent-{next(self._boots)}"
        self.folder.mkdir()
        self._numbers = itertools.count(1)
        modules = _modules(self.kernel)
        self.process = self.box.spawn(
            *_ALONE, self.kernel, f"mem={self.memory_mb}M",
            "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
            "con=null", "ssl=null", "con0=null,fd:1", "quiet", "panic=-1",
            f"uml_dir={self.folder}/", f"init={INIT}",
            f"SHARED={self.lab.tmp}", f"AGENT={self.folder.name}", f"NAMES={','.join(interfaces)}",
            *([f"MODULES={modules}"] if modules else []),
            # More than one are there only with this way of system calls (6.19).
            *([f"ncpus={self.processors}", "seccomp=on"] if self.processors > 1 else []),
            # A raw socket on the interface: the queue as long as the driver has it.
            *(f"vec{n}:transport=raw,ifname={name},depth=64,gro=0"
              for n, name in enumerate(interfaces)),
            log=self.lab.tmp / f"{self.name}-console.log",
            # Its memory is a file, and this is where it may be large.
            env={"TMPDIR": "/dev/shm"},
        )  # fmt: skip
        if wait:
            self.wait_up()
        return self

    def wait_up(self):
        """Waits until it takes commands."""
        self._wait("boot", lambda: (self.folder / "up").exists())

    def stop(self):
        """Turns it off, and waits for its end."""
        if self.process is None or not self.process.alive():
            return
        self._command("poweroff")
        try:
            self.process.wait(5)
        except LabError:
            self.process.stop(timeout=1)

    def alive(self):
        return self.process is not None and self.process.alive()

    # Commands

    def run(self, *argv, check=True, timeout=PATIENCE_S, stdin=None):
        """Runs a command in the guest and waits for it; returns the finished process.

        Both streams are in its `stdout`. A command without arguments is a line for the shell.
        """
        line = str(argv[0]) if len(argv) == 1 else shlex.join(map(str, argv))
        number = self._command(line, stdin)
        try:
            self._wait(line, lambda: _filled(self._file(number, "status")), timeout)
        except LabError:
            GuestProcess(self, number, argv).kill(signal.SIGKILL, wait=False)
            raise
        status = int(self._file(number, "status").read_text())
        output = self._file(number, "output").read_text(errors="replace")
        if check and status != 0:
            raise CommandFailed([f"[guest {self.name}]", line], status, output, "")
        return subprocess.CompletedProcess(argv, status, output, "")

    def spawn(self, *argv, log=None, env=None):
        """Starts a process in the guest; the lab sees its output."""
        if log is not None:
            raise LabError("a guest's process has its output where the agent puts it")
        words = [f"{key}={value}" for key, value in (env or {}).items()] + list(map(str, argv))
        number = self._command(f"exec {shlex.join(['env', *words])}")
        self._wait(argv[0], lambda: _filled(self._file(number, "pid")))
        process = GuestProcess(self, number, argv)
        return process

    def ip(self, *args, check=True):
        return self.run("ip", *args, check=check)

    def sysctl(self, key, value):
        self.run("sysctl", "-qw", f"{key}={value}")

    def refresh_etc(self):
        """Brings the files of `etc` into the guest's /etc."""
        # By way of a folder that the guest has not seen: it may remember what was in a file.
        copy = self.lab.tmp / f"{self.name}-etc-{next(self._copies)}"
        shutil.copytree(self.etc, copy)
        self.run("cp", "-rT", copy, "/etc")

    def argv(self, *argv):
        raise LabError("a guest's processes are started by its agent: use run or spawn")

    def entered(self):
        raise LabError("a guest's network cannot be entered from outside: use run or spawn")

    def _command(self, line, stdin=None):
        """Hands a command to the agent; returns its number."""
        with self._submit:
            number = next(self._numbers)
            if stdin is not None:
                self._file(number, "input").write_text(stdin)
            part = self._file(number, "part")
            part.write_text(line + "\n")
            part.rename(self._file(number, "command"))
            return number

    def _file(self, number, what):
        return self.folder / f"{number}.{what}"

    def _wait(self, what, condition, timeout=PATIENCE_S):
        """Waits for something in the guest; its death is an error."""

        def seen():
            if condition():
                return True
            if not self.alive():
                said = self.console()
                raise LabError(f"{self.name}: the guest ended ({what}): {last_words(said)}\n{said}")
            return False

        wait_for(f"{self.name}: {what}", seen, timeout, step=0.005)

    def console(self):
        """The last of what its kernel said."""
        return self.process.output()[-2000:] if self.process else ""

    def __repr__(self):
        return f"<guest {self.name} ({self.kernel.name})>"


class GuestProcess:
    """A process in a guest, as `base.Process` is one in a host. It has a session of its own."""

    def __init__(self, guest, number, argv):
        self.guest, self.number, self.argv = guest, number, [str(a) for a in argv]
        self.returncode = None

    def _file(self, what):
        return self.guest._file(self.number, what)

    @property
    def pid(self):
        """Its number in the guest."""
        return int(self._file("pid").read_text())

    def alive(self):
        return self.guest.alive() and not _filled(self._file("status"))

    def output(self):
        file = self._file("output")
        return file.read_text(errors="replace") if file.exists() else ""

    def kill(self, number, wait=True):
        """Sends a signal to it and its children."""
        if self.alive() and _filled(self._file("pid")):
            line = f"kill -{int(number)} -- -{self.pid} 2>/dev/null"
            if wait:
                self.guest.run(line, check=False)
            else:
                self.guest._command(line)

    def wait(self, timeout=PATIENCE_S):
        """Waits for its end and returns the exit status (128 and more: a signal)."""
        self.guest._wait(self.argv[0], lambda: _filled(self._file("status")), timeout)
        self.returncode = int(self._file("status").read_text())
        return self.returncode

    def wait_output(self, text, timeout=PATIENCE_S):
        """Waits until it has printed `text`; its early death is an error."""

        def seen():
            if text in self.output():
                return True
            if not self.alive() and text not in self.output():
                raise LabError(f"{self.argv[0]} ended before it printed {text!r}: {self.output()}")
            return False

        wait_for(f"{self.argv[0]}: {text!r}", seen, timeout)

    def stop(self, number=signal.SIGTERM, timeout=5.0):
        """Asks it to end, then makes it; returns the exit status."""
        self.kill(number)
        try:
            return self.wait(timeout)
        except LabError:
            self.kill(signal.SIGKILL)
            return self.wait(timeout)


def _filled(file):
    return file.exists() and file.read_text().endswith("\n")
