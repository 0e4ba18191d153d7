"""One of the suite's hosts: a network namespace, and file systems, processes and a name of its own.

The guest's first process (guest/boot.sh) mounts a private /etc, /run, /tmp, /var/log and /dev over
the machine's, which it sees read-only otherwise. Commands run in there through nsenter. When the
first process ends, the kernel ends all others and takes the mounts with it.
"""

import os
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path

from lab.base import LabError, wait_for
from lab.host import _WITH_MAKER

from . import network
from .excuses import configuration_of, stand_ins
from .local import PATH
from .scenario import with_stand_ins

#: What a guest's /etc has of the machine's: names of users and protocols, libraries, and the
#: configurations of the programs that scenarios call.
_ETC = (
    "passwd group nsswitch.conf host.conf protocols services ld.so.cache ld.so.conf localtime "
    "os-release ethertypes gai.conf iproute2 ssl/openssl.cnf alternatives/awk alternatives/iptables "
    "alternatives/ip6tables alternatives/iptables-restore alternatives/ip6tables-restore "
    "alternatives/iptables-save alternatives/ip6tables-save"
).split()

#: The folders that swanctl looks into.
_SWANCTL = (
    "bliss conf.d ecdsa pkcs12 pkcs8 private pubkey rsa x509 x509aa x509ac x509ca x509crl x509ocsp"
).split()

#: The folders that the legacy daemon looks into.
_IPSEC_D = "aacerts acerts cacerts certs crls ocspcerts policies private reqs".split()

#: How long one command of a scenario may take, in seconds.
COMMAND_S = 60

#: syslog facilities (RFC 5424, section 6.2.1) that go to files of their own, as the suite has it.
_FILES = {3: "daemon.log", 4: "auth.log", 10: "auth.log"}

_CONFIG = """\
name = "{name}"

# A few packets at a time, and many daemons on one machine.
[worker]
{cpus}frames = 8192
flows = 1024

# Some scenarios are about 3DES and MD5.
[crypto]
allow_weak = true
"""

_PORT = """
[[port]]
interface = "{interface}"
kind = "xdp"
"""


class Guest:
    """A host. `host` is the lab's, which has the network namespace."""

    def __init__(self, host, scenario, common, folder):
        self.host, self.name = host, host.name
        self.scenario, self.common = scenario, common
        self.folder = Path(folder)
        #: None: those of the machine that all run on.
        self.processors = None
        if common.is_charon6:
            self.processors = network.processors(scenario.suite.testing / "config/kvm", self.name)
        self.etc, self.log = self.folder / "etc", self.folder / "log"
        self.pid = None
        self.culvert = None
        self._syslog = None
        self._reading = threading.Lock()
        self._files = {}

    # Life

    def boot(self, cables):
        """Writes its files, starts its first process, and configures its interfaces."""
        for folder in (self.etc, self.log, self.folder / "dev", self.folder / "var"):
            folder.mkdir(parents=True)
        self._write_etc()
        if self.processors:
            (self.folder / "online").write_text(f"0-{self.processors - 1}\n")
        self._syslog = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._syslog.bind(str(self.folder / "syslog"))
        (self.folder / "syslog").chmod(0o666)
        self._syslog.setblocking(False)
        for name in ("daemon.log", "auth.log", "syslog"):
            self._files[name] = open(self.log / name, "a", encoding="utf-8")  # noqa: SIM115
        www = self.common.www if self.name == "winnetou" else "/nonexistent"
        process = self.host.spawn(
            "unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc",
            "/bin/sh", Path(__file__).parent / "guest/boot.sh",
            self.name, self.folder, self.common.local, self.common.ipsec, www,
        )  # fmt: skip
        process.wait_output("booted")
        # Not every kernel has a list of them in /proc.
        found = self.host.run("pgrep", "--parent", process.pid, check=False).stdout
        children = found.split()
        if len(children) != 1:
            raise LabError(f"{self.name}: no first process")
        self.pid = int(children[0])
        text = (self.etc / "sysctl.conf").read_text()
        for key, value in network.forwarding(text):
            self.host.sysctl(key, value)
        configured = network.interfaces((self.etc / "network/interfaces").read_text())
        network.bring_up(self.host, configured)
        self.interfaces = cables
        if self.name == "winnetou":
            self.run("/usr/local/libexec/web start")

    def _write_etc(self):
        for name in _ETC:
            source, target = Path("/etc") / name, self.etc / name
            target.parent.mkdir(exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True)
            elif source.exists():
                shutil.copy(source, target, follow_symlinks=False)
        for folder in _SWANCTL:
            (self.etc / "swanctl" / folder).mkdir(parents=True)
        for folder in _IPSEC_D:
            (self.etc / "ipsec.d" / folder).mkdir(parents=True)
        self.scenario.install(self.name, self.etc)
        conf = self.etc / "strongswan.conf"
        if conf.exists():
            text = with_stand_ins(conf.read_text(), stand_ins())
            if self.name in self.scenario.ipsec_hosts:
                text += configuration_of(self.scenario.name, "strongswan")
            conf.write_text(text)
        (self.etc / "resolv.conf").touch()
        (self.etc / "mtab").symlink_to("/proc/self/mounts")
        # The guests' root has no password, and sshd wants a user without rights.
        passwd = self.etc / "passwd"
        if "\nsshd:" not in passwd.read_text():
            with open(passwd, "a", encoding="utf-8") as file:
                file.write("sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n")
        (self.etc / "shadow").write_text("root::19000:0:99999:7:::\nsshd:!:19000::::::\n")
        (self.etc / "shadow").chmod(0o600)
        ssh = self.etc / "ssh"
        ssh.mkdir(exist_ok=True)
        for key in (self.common.debian / "keys").iterdir():
            shutil.copy(key, ssh)
            (ssh / key.name).chmod(0o600)
        client = "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
        (ssh / "ssh_config").write_text(client + "  LogLevel ERROR\n")

    def start_sshd(self):
        """The suite's hosts run an SSH server; only some scenarios use it."""
        debian = "/usr/local/lib/debian/usr"
        libraries = f"{debian}/lib/$(uname -m)-linux-gnu"
        self.run(f"LD_LIBRARY_PATH={libraries} {debian}/sbin/sshd -E /var/log/sshd.log")

    def start_culvert(self):
        """Starts culvert on all of the guest's interfaces and waits until it is ready."""
        # As a kernel with ESP works on each processor.
        cpus = f"cpus = {list(range(self.processors))}\n" if self.processors else ""
        text = _CONFIG.format(name=self.name, cpus=cpus)
        text += "".join(_PORT.format(interface=name) for name in self.interfaces)
        text += configuration_of(self.scenario.name)
        (self.etc / "culvert").mkdir(exist_ok=True)
        (self.etc / "culvert/culvert.toml").write_text(text)
        log = self.log / "culvert.log"
        self.culvert = self.host.spawn(
            *self._enter(), "/usr/local/bin/culvert", "run", "--name", self.name,
            log=log, env={"NO_COLOR": "1"},
        )  # fmt: skip
        self.culvert.log = log

        def ready():
            if "culvert: ready" in self.culvert.output():
                return True
            if not self.culvert.alive():
                raise LabError(f"culvert on {self.name} ended:\n{self.culvert.output()[-3000:]}")
            return False

        wait_for(f"culvert on {self.name}", ready)

    # Commands

    def _enter(self):
        return ["nsenter", "-t", str(self.pid), "-m", "-p", "-u", "-n", "--"]

    def run(self, script, timeout=COMMAND_S):
        """Runs text with the guest's bash; returns (status, stdout, stderr).

        Output goes to files: a daemon that a command leaves behind may keep them open.
        """
        out, err = self.folder / "stdout", self.folder / "stderr"
        with open(out, "wb") as stdout, open(err, "wb") as stderr:
            popen = subprocess.Popen(
                [*_WITH_MAKER[:3], *self._enter(), "/bin/bash", "-c", f"cd; {script}"],
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True,
                env={
                    "PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "USER": "root",
                    "STRONGSWAN_CONF": "/etc/strongswan.conf.testing", "TERM": "dumb",
                },
                cwd="/",
            )  # fmt: skip
            try:
                status = popen.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(popen.pid, signal.SIGKILL)
                popen.wait()
                status = 124
        self.read_syslog()
        return status, _text(out), _text(err)

    def capture(self, switch, interface):
        """Starts a capture on the guest's cable, with the guest's names for addresses."""
        log = f"/var/log/tcpdump-{interface}"
        command = (
            f"exec tcpdump -l --immediate-mode -i {self.name}-{interface} "
            f"not port ssh and not port domain >{log}.log 2>{log}.err"
        )
        return Capture(
            switch.spawn("nsenter", "-t", self.pid, "-m", "--", "/bin/sh", "-c", command),
            self.log / f"tcpdump-{interface}.log",
            self.log / f"tcpdump-{interface}.err",
        )

    def capture_arriving(self):
        """Starts a capture of what tunnels bring, which Linux sees come in by culvert0."""
        log = "/var/log/tcpdump-culvert0"
        command = (
            f"exec tcpdump -l --immediate-mode -Q in -i culvert0 "
            f"not port ssh and not port domain >{log}.log 2>{log}.err"
        )
        return Capture(
            self.host.spawn(*self._enter(), "/bin/sh", "-c", command),
            self.log / "tcpdump-culvert0.log",
            self.log / "tcpdump-culvert0.err",
        )

    # Its logs

    def read_syslog(self):
        """Files what has been said on /dev/log so far."""
        with self._reading:
            while True:
                try:
                    data = self._syslog.recv(65536)
                except (BlockingIOError, OSError):
                    break
                self._file(data.decode(errors="replace").rstrip("\n\0"))
            for file in self._files.values():
                file.flush()

    def _file(self, text):
        priority, _, rest = text.removeprefix("<").partition(">")
        facility = int(priority) >> 3 if priority.isdigit() else 1
        # "Nov 25 14:26:03 charon-systemd[12]: ...": the host's name goes behind the time.
        line = f"{rest[:16]}{self.name} {rest[16:]}\n" if rest[3:4] == " " else f"{rest}\n"
        self._files[_FILES.get(facility, "syslog")].write(line)

    def syslog_descriptor(self):
        return self._syslog.fileno()

    def close(self):
        if self._syslog:
            self.read_syslog()
            self._syslog.close()
        for file in self._files.values():
            file.close()


class Capture:
    """A running tcpdump."""

    def __init__(self, process, log, errors):
        self.process, self.log, self.errors = process, log, errors
        wait_for("tcpdump", self._listens)

    def _listens(self):
        if not self.process.alive():
            raise LabError(f"tcpdump ended: {_text(self.errors)}")
        return "listening on" in _text(self.errors)

    def stop(self):
        """Ends it once it has printed what has arrived."""
        size = -1
        while size != (now := self.log.stat().st_size):
            size = now
            threading.Event().wait(0.1)
        self.process.stop(signal.SIGINT)

    def text(self):
        return _text(self.log)


def _text(path):
    return path.read_text(errors="replace") if path.exists() else ""
