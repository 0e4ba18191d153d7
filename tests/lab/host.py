"""One host: a network namespace, and what can be done in it."""

import contextlib
import ctypes
import os
import socket
import subprocess

from .base import ETC_NETNS, NETNS, PATIENCE_S, CommandFailed, LabError, Process, sh

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)

#: Starts a program that must not outlive its maker, whose pid follows. The kernel sends the signal
#: only for a death after it was asked to; a maker that died before is no longer the parent. The
#: shell by its path: a scenario may run a program with hardly anything in PATH.
_WITH_MAKER = [
    "setpriv", "--pdeathsig", "KILL", "/bin/sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"',
]


class Host:
    """A host of a lab. Made by `Lab.host`, removed with the lab."""

    def __init__(self, lab, name, ns):
        self.lab, self.name, self.ns = lab, name, ns
        #: Files here are seen by the host's processes in /etc (as `ip netns exec` mounts them).
        self.etc = ETC_NETNS / ns

    def create(self, forward):
        self._add_namespace()
        self.etc.mkdir(parents=True, exist_ok=True)
        for family in ("all", "default"):
            self.sysctl(f"net.ipv6.conf.{family}.disable_ipv6", 0)
            self.sysctl(f"net.ipv6.conf.{family}.accept_dad", 0)
            self.sysctl(f"net.ipv4.conf.{family}.rp_filter", 0)
            self.sysctl(f"net.ipv4.conf.{family}.send_redirects", 0)
        # Tests count ICMP errors: the kernel must not ration them.
        self.sysctl("net.ipv4.icmp_ratelimit", 0)
        self.sysctl("net.ipv6.icmp.ratelimit", 0)
        if forward:
            self.sysctl("net.ipv4.ip_forward", 1)
            self.sysctl("net.ipv6.conf.all.forwarding", 1)
        self.ip("link", "set", "lo", "up")

    def _add_namespace(self):
        sh("ip", "netns", "add", self.ns)

    # Configuration

    def ip(self, *args, check=True):
        """`ip` in this host."""
        return sh("ip", "-n", self.ns, *args, check=check)

    def sysctl(self, key, value):
        """Sets a sysctl of this host; raises when the kernel has no such key."""
        path = "/proc/sys/" + key.replace(".", "/")
        with self.entered():
            try:
                with open(path, "w", encoding="ascii") as file:
                    file.write(str(value))
            except OSError as error:
                raise LabError(f"{self.name}: sysctl {key}: {error}") from error

    def address(self, dev, *prefixes):
        """Gives an interface addresses (with prefix length), ready for use at once."""
        for prefix in prefixes:
            nodad = ["nodad"] if ":" in prefix else []
            self.ip("addr", "add", prefix, "dev", dev, *nodad)

    def route(self, prefix, *how):
        """Adds a route, for instance `route("10.2.0.0/24", "via", "192.0.2.2")`."""
        family = "-6" if ":" in prefix or (how and ":" in how[-1]) else "-4"
        self.ip(family, "route", "add", prefix, *how)

    def mac(self, dev):
        """An interface's hardware address, as text."""
        return self.ip("-br", "link", "show", dev).stdout.split()[2]

    def refresh_etc(self):
        """Has processes that start from now on see the files of `etc` as they are now."""
        # `ip netns exec` does that.

    # Processes

    def argv(self, *argv):
        return ["ip", "netns", "exec", self.ns, *map(str, argv)]

    def run(self, *argv, check=True, timeout=PATIENCE_S, stdin=None):
        """Runs a command in the host and waits for it; returns the finished process."""
        try:
            return sh(*self.argv(*argv), check=check, timeout=timeout, stdin=stdin)
        except CommandFailed as error:
            raise CommandFailed(
                [f"[{self.name}]", *argv], error.status, error.stdout, error.stderr
            ) from None

    def spawn(self, *argv, log=None, env=None):
        """Starts a process in the host; its output goes to a file of the lab."""
        if self.lab.closed:
            raise LabError("the lab is closed")
        base = os.path.basename(str(argv[0]))
        log = log or self.lab.tmp / f"{self.name}-{base}-{len(self.lab.processes)}.log"
        with open(log, "ab") as out:
            # A lab that is to be kept must survive the one who made it.
            dies = [] if self.lab.keep else [*_WITH_MAKER, str(os.getpid())]
            popen = subprocess.Popen(
                [*dies, *self.argv(*argv)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(env or {})},
            )
        process = Process(popen, [str(a) for a in argv], log)
        self.lab.processes.append(process)
        return process

    # Sockets of this process inside the host

    @contextlib.contextmanager
    def entered(self):
        """Puts the calling thread into the host's namespace: what it opens belongs there."""
        with open("/proc/thread-self/ns/net", "rb") as home, open(NETNS / self.ns, "rb") as there:
            _setns(there.fileno())
            try:
                yield self
            finally:
                _setns(home.fileno())

    def socket(self, *args):
        """A socket in the host, usable from here."""
        with self.entered():
            return socket.socket(*args)

    def __repr__(self):
        return f"<host {self.name} ({self.ns})>"


def _setns(descriptor):
    if _LIBC.setns(descriptor, _CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise LabError(f"setns: {os.strerror(error)}")
