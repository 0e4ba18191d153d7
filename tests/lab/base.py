"""The lab: a set of hosts with one owner, and the promise that nothing stays behind."""

import atexit
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

#: Of the source tree.
ROOT = Path(__file__).resolve().parents[2]

#: Every namespace of ours starts with this; the clean-up of an earlier run looks for it.
PREFIX = "cvlab-"

#: One file per live lab: who owns it. It lets a later run tell a crashed lab from a live one.
STATE = Path("/run/cvlab")

NETNS = Path("/run/netns")
ETC_NETNS = Path("/etc/netns")

#: How long anything may take that is waited for: far more than it takes on a slow and busy machine.
#: No wait ends early because of it, and nothing is tested by it.
PATIENCE_S = 90


#: What asks to end: a terminal's key, a supervisor, a terminal that was closed.
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interruptible():
    """Makes each of them a KeyboardInterrupt, so that all is removed; but not a hangup that is ignored
    (nohup)."""
    for number in INTERRUPTS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


class LabError(Exception):
    """The lab itself could not do what was asked (not: the program under test failed)."""


class CommandFailed(LabError):
    """A command ended with an unexpected exit status."""

    def __init__(self, argv, status, stdout, stderr):
        self.argv, self.status, self.stdout, self.stderr = argv, status, stdout, stderr
        text = (stderr or "").strip() or (stdout or "").strip()
        super().__init__(f"{' '.join(map(str, argv))}: exit status {status}: {text[-2000:]}")


def sh(*argv, check=True, timeout=PATIENCE_S, stdin=None):
    """Runs a command on the machine itself (not in a host) and returns the finished process."""
    argv = [str(a) for a in argv]
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, errors="replace", timeout=timeout
        )
    except subprocess.TimeoutExpired as late:
        raise LabError(f"{' '.join(argv)}: no end after {timeout} s") from late
    if check and done.returncode != 0:
        raise CommandFailed(argv, done.returncode, done.stdout, done.stderr)
    return done


def wait_for(what, condition, timeout=PATIENCE_S, step=0.05):
    """Waits until `condition()` is true and returns its value.

    Raises LabError, which names `what` was waited for, when `timeout` seconds have passed.
    """
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise LabError(f"{what}: not within {timeout:g} s")
        time.sleep(step)


class Process:
    """A process that runs in a host, with its output in a file.

    It has a session of its own, so that its children die with it, and the kernel kills it when
    the process that made the lab dies without a word.
    """

    def __init__(self, popen, argv, log):
        self.popen, self.argv, self.log = popen, argv, Path(log)
        self.pid = popen.pid

    def alive(self):
        return self.popen.poll() is None

    def output(self):
        """What it has printed so far, both streams together."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill(self, number):
        """Sends a signal to the process alone."""
        if self.alive():
            os.kill(self.pid, number)

    def wait(self, timeout=PATIENCE_S):
        """Waits for its end and returns the exit status (negative: the signal)."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired as late:
            raise LabError(f"{self.argv[0]} (pid {self.pid}): no end after {timeout:g} s") from late

    def wait_output(self, text, timeout=PATIENCE_S):
        """Waits until it has printed `text`; its early death is an error."""

        def seen():
            if text in self.output():
                return True
            if not self.alive():
                if text in self.output():
                    return True
                raise LabError(
                    f"{' '.join(self.argv)}: ended with {self.popen.returncode} before it printed "
                    f"{text!r}:\n{self.output()[-3000:]}"
                )
            return False

        wait_for(f"{self.argv[0]}: {text!r}", seen, timeout)

    def stop(self, number=signal.SIGTERM, timeout=5.0):
        """Asks it to end, then makes it; returns the exit status."""
        if self.alive():
            self._signal_all(number)
            try:
                self.popen.wait(timeout)
            except subprocess.TimeoutExpired:
                pass
        self._signal_all(signal.SIGKILL)
        return self.popen.wait(PATIENCE_S)

    def _signal_all(self, number):
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass


class Lab:
    """Hosts, links and processes with one life. Use it as a context manager.

    Not safe for use by several threads at once.
    """

    def __init__(self, name="lab", keep=False):
        if os.geteuid() != 0:
            raise LabError("the lab makes network namespaces: run it as root")
        self.run_id = f"{os.getpid():x}{secrets.token_hex(2)}"
        self.name = name
        self.keep = keep
        self.hosts = {}
        self.processes = []
        self.closing = []
        self.paths = []
        self.network = None
        #: Queues of each end of the links that are made from now on: one for each worker.
        self.queues = int(os.environ.get("CULVERT_WORKERS") or 1)
        #: Hosts that are made in user namespaces.
        self.rootless = ()
        self.closed = False
        self.tmp = Path(tempfile.mkdtemp(prefix=f"cvlab-{self.run_id}-"))
        STATE.mkdir(mode=0o700, exist_ok=True)
        self._state = STATE / f"{self.run_id}.json"
        self._save()
        atexit.register(self.close)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.keep:
            self.close()

    def host(self, name, forward=False):
        """Makes a host. `forward`: it is a router."""
        from .host import Host
        from .rootless import RootlessHost

        if name in self.hosts:
            raise LabError(f"host {name} exists already")
        kind = RootlessHost if name in self.rootless else Host
        host = kind(self, name, f"{PREFIX}{self.run_id}-{name}")
        self.hosts[name] = host
        self._save()
        host.create(forward)
        return host

    def link(self, one, one_name, two, two_name, mtu=1500, offload=True):
        """Joins two hosts with a veth pair and brings both ends up.

        `offload=False` turns checksum and segmentation offload off at both ends, as on a host
        whose frames are complete when they leave it.
        """
        queues = ("numrxqueues", self.queues, "numtxqueues", self.queues)
        sh("ip", "link", "add", one_name, "netns", one.ns, "mtu", mtu, *queues, "type", "veth",
           "peer", "name", two_name, "netns", two.ns, "mtu", mtu, *queues)  # fmt: skip
        for host, dev in ((one, one_name), (two, two_name)):
            host.sysctl(f"net.ipv6.conf.{dev}.accept_dad", 0)
            host.ip("link", "set", "dev", dev, "up")
            if not offload:
                host.run("ethtool", "-K", dev, "tx", "off", "tso", "off", "gso", "off", "gro", "off")

    def owns(self, path):
        """Has a file or folder outside the lab's own removed at the end (or by a later sweep)."""
        self.paths.append(Path(path))
        self._save()

    def at_close(self, call):
        """Has `call()` run when the lab ends, before processes are stopped; last in, first out."""
        self.closing.append(call)

    def close(self):
        """Ends every process, removes every host and file. Does nothing the second time."""
        if self.closed:
            return
        self.closed = True
        # An interrupt in the middle of the clean-up would leave half of it behind.
        old = {}
        for number in INTERRUPTS:
            try:
                old[number] = signal.signal(number, signal.SIG_IGN)
            except ValueError:  # not the main thread
                pass
        try:
            for call in reversed(self.closing):
                try:
                    call()
                except Exception as error:  # noqa: BLE001 - the rest must go all the same
                    print(f"lab: while closing: {error}")
            for process in reversed(self.processes):
                try:
                    process.stop(timeout=2.0)
                except Exception as error:  # noqa: BLE001
                    print(f"lab: while stopping {process.argv[0]}: {error}")
            for host in self.hosts.values():
                remove_namespace(host.ns)
            for path in (self.tmp, *self.paths):
                remove_path(path)
            self._state.unlink(missing_ok=True)
            atexit.unregister(self.close)
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def release(self):
        """Forgets everything without removing it: the hosts stay for the user (KEEP=1)."""
        self.closed = True
        atexit.unregister(self.close)
        self._save(kept=True)

    def _save(self, kept=False):
        self._state.write_text(
            json.dumps(
                {
                    "pid": os.getpid(),
                    "start": _start_time(os.getpid()),
                    "kept": kept,
                    "paths": [str(p) for p in (self.tmp, *self.paths)],
                    "namespaces": [h.ns for h in self.hosts.values()],
                }
            )
        )


def remove_namespace(ns):
    """Kills what runs in a namespace, then removes it and its folder under /etc/netns."""
    if (NETNS / ns).exists():
        for _ in range(3):
            pids = sh("ip", "netns", "pids", ns, check=False).stdout.split()
            if not pids:
                break
            for pid in pids:
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
        sh("ip", "netns", "del", ns, check=False)
    shutil.rmtree(ETC_NETNS / ns, ignore_errors=True)
    try:
        ETC_NETNS.rmdir()
    except OSError:
        pass  # not empty, or not there


def remove_path(path):
    """Removes a folder or a socket of a lab, and the folder above it if that is culvert's and empty now."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    if path.parent in (Path("/run/culvert"), Path("/run/culvert-read")):
        try:
            path.parent.rmdir()
        except OSError:
            pass  # other instances live there


def sweep(kept=False):
    """Removes what crashed runs left behind; with `kept`, also demos that were kept up.

    Returns the number of namespaces removed. A lab whose owner lives is not touched.
    """
    removed = 0
    if not STATE.exists():
        return removed
    for file in STATE.glob("*.json"):
        try:
            state = json.loads(file.read_text())
        except (OSError, ValueError):
            continue
        alive = _start_time(state["pid"]) == state["start"]
        if (state["kept"] and not kept) or (alive and not state["kept"]):
            continue
        for ns in state["namespaces"]:
            if ns.startswith(PREFIX):
                remove_namespace(ns)
                removed += 1
        for path in state["paths"]:
            remove_path(Path(path))
        file.unlink(missing_ok=True)
    return removed


def _start_time(pid):
    """When a process started, in clock ticks since boot; None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])
