"""Data planes: who carries the packets of a gateway. One interface, five of them.

`plain`     the kernel forwards; no IPsec at all (the reference for throughput).
`libipsec`  strongSwan's own user-space ESP, in charon (the plugin kernel-libipsec).
`kernel`    the ESP of the kernel that the host runs on: the machine's own, or a guest's.
`culvert`   one culvert daemon; charon is started through `culvert exec`.
`beside`    the ESP of the kernel, and a culvert daemon beside it that takes its SAs over (`source = "kernel"`).
`kernel6`, `culvert6`, `beside6`  the same with strongSwan 6 of Debian testing (`charon6`).
"""

import functools
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from .base import PATIENCE_S, ROOT, CommandFailed, LabError, wait_for
from .charon6 import Swan6
from .swan import Swan

_DAEMON_CONFIG = """\
# Written by the lab.
name = "{name}"
{source}{settings}{ports}
"""

_PORT = """
[[port]]
interface = "{interface}"
{how}
"""


def _how(host, interface, mode):
    """How a port is taken: by $CULVERT_PORTS, which is a kind for all, or `lan=packet`, where the others are AF_XDP's.

    Without it gateway B has AF_XDP, and all others what culvert takes by itself: packet sockets, as the lab's links have
    no zero copy. So each scenario runs with both kinds."""
    asked = os.environ.get("CULVERT_PORTS", "")
    if "=" in asked:
        kind = dict(pair.split("=") for pair in asked.split(",")).get(interface, "xdp")
    else:
        kind = asked or ("xdp" if host.name == "gwb" else "auto")
    # A mode that a test asks for is of XDP.
    if mode != "auto":
        return f'mode = "{mode}"'
    return "" if kind == "auto" else f'kind = "{kind}"'


#: A warning, and a finding of `culvert doctor`, that is about the machine that runs the test.
ON_A_DISK = "the vault is on a disk"


def culvert_binary():
    """The binary under test: $CULVERT, or the newest of the build folders."""
    if os.environ.get("CULVERT"):
        return Path(os.environ["CULVERT"])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    found = [p for p in (target / "release/culvert", target / "debug/culvert") if p.exists()]
    return max(found, key=lambda p: p.stat().st_mtime, default=target / "release/culvert")


@functools.cache
def culvert_missing():
    """Why the culvert data plane cannot be used; an empty text when it can."""
    binary = culvert_binary()
    if not binary.exists():
        return f"{binary} is not built (make build)"
    try:
        done = subprocess.run(
            [binary, "run", "--help"], capture_output=True, text=True, timeout=PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{binary} run --help: {error}"
    if done.returncode != 0 or "--config" not in done.stdout:
        return f"{binary} does not know `run --config`"
    return ""


def _with_workers(text):
    """The configuration with $CULVERT_WORKERS workers, unless it says how many itself."""
    workers = os.environ.get("CULVERT_WORKERS")
    if not workers:
        return text
    line = f"cpus = {int(workers)}\n"
    own = f"\n[worker] # CULVERT_WORKERS\n{line}"
    # A test may have added to what was written before.
    text = text.replace(own, "")
    if re.search(r"^cpus? *=", text, re.MULTILINE):
        return text
    if "[worker]\n" in text:
        return text.replace("[worker]\n", f"[worker]\n{line}")
    return text + own


class Plane:
    """What carries a gateway's packets. `attach` makes the gateway's strongSwan, if it has one."""

    name = ""
    ipsec = True

    def attach(self, gateway):
        """Called once when the gateway is made: gives it `gateway.swan` (or None)."""
        raise NotImplementedError

    def start(self, gateway):
        """Starts what must run before charon."""

    def stop(self, gateway):
        """Stops it in order."""

    def rss_bytes(self, gateway):
        """Memory of the process that does the packet work, in bytes; 0 if it is the kernel."""
        return 0


class Plain(Plane):
    name = "plain"
    ipsec = False

    def attach(self, gateway):
        gateway.swan = None


class Libipsec(Plane):
    name = "libipsec"

    def attach(self, gateway):
        gateway.swan = Swan(gateway.host, kernel="kernel-libipsec")

    def rss_bytes(self, gateway):
        return resident_bytes(gateway.swan.process.pid)


class Kernel(Plane):
    name = "kernel"

    swan = Swan

    def attach(self, gateway):
        gateway.swan = self.swan(gateway.host)


class Kernel6(Kernel):
    name = "kernel6"
    swan = Swan6


class Culvert(Plane):
    name = "culvert"

    swan = Swan

    def attach(self, gateway):
        gateway.daemon = Daemon(gateway.host, gateway.ports)
        binary = culvert_binary()
        wrap = [binary, "exec", "--name", gateway.daemon.name, "--"]
        gateway.swan = self.swan(gateway.host, wrap=wrap)

    def start(self, gateway):
        gateway.daemon.start()

    def stop(self, gateway):
        gateway.daemon.stop()

    def rss_bytes(self, gateway):
        return resident_bytes(gateway.daemon.process.pid)


class Culvert6(Culvert):
    name = "culvert6"
    swan = Swan6


class Beside(Kernel):
    """charon works on the kernel's XFRM and knows nothing of the daemon, which tests start when they want it
    (`beside.Bed`). With $CULVERT_BESIDE=off there is none: what a test then fails at is its own mistake."""

    name = "beside"

    def attach(self, gateway):
        super().attach(gateway)
        if not beside_is_off():
            gateway.daemon = Daemon(gateway.host, gateway.ports, source="kernel")

    def stop(self, gateway):
        if gateway.daemon:
            gateway.daemon.stop()

    def rss_bytes(self, gateway):
        return resident_bytes(gateway.daemon.process.pid) if gateway.daemon else 0


class Beside6(Beside):
    name = "beside6"
    swan = Swan6


def beside_is_off():
    """Whether the plane `beside` is to be the kernel alone."""
    return os.environ.get("CULVERT_BESIDE") == "off"


PLANES = {
    plane.name: plane
    for plane in (
        Plain(), Libipsec(), Kernel(), Kernel6(), Beside(), Beside6(), Culvert(), Culvert6()
    )
}  # fmt: skip


def planes_of(spec):
    """The planes of gateway A and gateway B: "culvert" (both) or "culvert+libipsec"."""
    names = spec.split("+")
    if not 1 <= len(names) <= 2 or any(name not in PLANES for name in names):
        raise LabError(f"no such data plane: {spec}; there are {', '.join(PLANES)}")
    return PLANES[names[0]], PLANES[names[-1]]


def resident_bytes(pid):
    """A process's resident set, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024


class Daemon:
    """A culvert daemon on a host, and its command line."""

    def __init__(self, host, ports, mode="auto", source=""):
        self.host, self.ports, self.mode, self.source = host, ports, mode, source
        self.name = f"{host.name}-{host.lab.run_id}"
        self.config = host.lab.tmp / f"{host.name}.culvert.toml"
        self.process = None
        #: Tables of the default configuration, beyond the ports.
        self.settings = ""
        #: Environment of the daemon, beyond the lab's own.
        self.environment = {}
        #: Whether it runs without ports, and starts with no capability but CAP_NET_ADMIN.
        self.is_unprivileged = os.environ.get("CULVERT_PORTS") == "unprivileged"
        #: Whether it starts with all capabilities nevertheless.
        self.has_all_rights = False
        #: What starts it: a command that becomes the daemon.
        self.wrapper = []
        #: Arguments of `culvert run`, beyond the configuration file.
        self.arguments = []
        self.write_config()
        host.lab.owns(f"/run/culvert/{self.name}")
        host.lab.owns(f"/run/culvert-read/{self.name}.sock")
        host.lab.at_close(self._forget)

    def write_config(self, text=None):
        """Writes the configuration file: the default one, or `text` with @NAME@ filled in."""
        if text is None:
            ports = "" if self.is_unprivileged else "".join(_PORT.format(interface=p, how=_how(self.host, p, self.mode)) for p in self.ports)
            # How SAs cross says what a loss goes with.
            level = 'log.level = "control::sources::kernel=debug,info"\n'
            source = f'source = "{self.source}"\n{level}' if self.source else ""
            text = _DAEMON_CONFIG.format(name=self.name, source=source, settings=self.settings, ports=ports)
        self.config.write_text(_with_workers(text.replace("@NAME@", self.name)))

    def program(self):
        """What starts it: the program, after what takes rights from it."""
        if not self.is_unprivileged or self.has_all_rights:
            return [culvert_binary()]
        limits = ["--bounding-set=-all,+net_admin", "--inh-caps=-all", "--no-new-privs"]
        return ["setpriv", *limits, culvert_binary()]

    def spawn(self):
        """Starts it, and does not wait."""
        log = self.host.lab.tmp / f"{self.host.name}-culvert.log"
        self.process = self.host.spawn(
            *self.wrapper, *self.program(), "run", "--config", self.config, *self.arguments,
            *(["--unprivileged"] if self.is_unprivileged else []), log=log,
            env={"NO_COLOR": "1", **self.environment},
        )
        return self.process

    def start(self):
        """Starts it and waits until it says that it is ready."""
        log = self.host.lab.tmp / f"{self.host.name}-culvert.log"
        # The log is appended to over restarts: wait for one more ready line than there was.
        before = log.read_text().count("culvert: ready") if log.exists() else 0
        self.spawn()

        def ready():
            if self.process.output().count("culvert: ready") > before:
                return True
            if not self.process.alive():
                raise LabError(f"culvert on {self.host.name} ended:\n{self.process.output()[-4000:]}")
            return False

        wait_for(f"culvert on {self.host.name}", ready)

    def stop(self):
        """SIGTERM, and what it answered."""
        return self.process.stop(timeout=PATIENCE_S)

    def kill9(self):
        """What a crash is like."""
        self.process.kill(signal.SIGKILL)
        self.process.wait()

    def worker_cpu_s(self):
        """Processor time that the workers' threads have used so far, in seconds."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        used = [
            int((task / "schedstat").read_text().split()[0]) / 1e9
            for task in tasks
            if (task / "comm").read_text().startswith("culvert-work")
        ]
        if not used:
            raise LabError(f"culvert on {self.host.name} has no worker")
        return sum(used)

    def reload(self):
        """SIGHUP, and waits until the daemon has read its configuration again, or refused to."""
        before = len(self.log())
        self.process.kill(signal.SIGHUP)
        said = ("configuration reloaded", "configuration not reloaded")
        wait_for("a reload", lambda: any(text in self.log()[before:] for text in said))
        return self.log()[before:]

    def alive(self):
        return self.process is not None and self.process.alive()

    def culvert(self, *args, check=True, timeout=PATIENCE_S):
        """`culvert --name NAME ARGS`; returns the finished process."""
        return self.host.run(
            culvert_binary(), "--name", self.name, *args, check=check, timeout=timeout
        )

    def json(self, *args):
        """What it answers, also where the machine is so busy that it does not do so at once."""
        end = time.monotonic() + PATIENCE_S
        while True:
            done = self.culvert(*args, "--json", check=False)
            if done.returncode == 0:
                return json.loads(done.stdout)
            if "no answer" not in done.stderr or time.monotonic() > end:
                raise CommandFailed([self.name, *args], done.returncode, done.stdout, done.stderr)

    def exec(self, *args, check=True, timeout=PATIENCE_S):
        """A program whose XFRM netlink goes to this daemon: `ip xfrm state`, for instance."""
        return self.host.run(
            culvert_binary(), "exec", "--name", self.name, "--", *args, check=check, timeout=timeout
        )

    def warnings(self):
        """What `culvert status` warns of, but of a disk: it is the machine's that runs the test."""
        return [text for text in self.json("status")["warnings"] if ON_A_DISK not in text]

    def drops(self):
        """Drop counters by name; a reason that has not been seen may be missing: use `.get`."""
        return self.json("drops")["drops"]

    def stats(self):
        return self.json("stats")

    def log(self):
        return self.process.output() if self.process else ""

    def _forget(self):
        """What outlives the daemon on purpose (the guard) must not outlive the lab."""
        if self.process is not None:
            # Programs that use it end first: without it they would wait for it to come back.
            for process in reversed(self.host.lab.processes):
                if [str(word) for word in process.argv[1:4]] == ["exec", "--name", self.name]:
                    process.stop(timeout=2)
            self.process.stop(timeout=5)
            self.culvert("guard", "clear", "--yes", check=False)
