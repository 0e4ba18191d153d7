"""libreswan's pluto on a host, unpacked and not installed (see scripts/fetch-libreswan).

Its package conflicts with strongSwan's, and pluto looks for its helpers in /usr/libexec/ipsec: they
are mounted there in a mount namespace of its own, which ends with the process.
"""

import shlex

from .base import PATIENCE_S, LabError, wait_for
from .planes import ROOT

FOLDER = ROOT / "build" / "libreswan"
PROGRAMS = FOLDER / "usr/libexec/ipsec"

#: Of both gateways, by their names.
SECRETS = '@gwa.culvert.test @gwb.culvert.test : PSK "a secret for tests only"\n'

_RUN = """\
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=0755 tmpfs /usr/libexec
mkdir /usr/libexec/ipsec
mount --bind {programs} /usr/libexec/ipsec
export LD_LIBRARY_PATH={libraries}
exec {command}
"""


def missing():
    """Why libreswan cannot be used; an empty text when it can."""
    return "" if (PROGRAMS / "pluto").exists() else f"{FOLDER} is missing (scripts/setup)"


class Pluto:
    """One pluto. `wrap` is put before its command line, as with strongSwan."""

    def __init__(self, host, wrap=()):
        self.host, self.wrap = host, list(wrap)
        self.folder = host.lab.tmp / f"{host.name}-pluto"
        self.folder.mkdir()
        self.libraries = FOLDER / "usr/lib/x86_64-linux-gnu"
        self.process = None

    def _argv(self, *argv):
        command = shlex.join(map(str, argv))
        return ["unshare", "--mount", "sh", "-c", _RUN.format(
            programs=PROGRAMS, libraries=f"{self.libraries}:{self.libraries}/nss", command=command,
        )]  # fmt: skip

    def configure(self, conf, secrets):
        """Writes ipsec.conf and ipsec.secrets, and makes an empty NSS database."""
        (self.folder / "ipsec.conf").write_text(conf)
        (self.folder / "ipsec.secrets").write_text(secrets)
        (self.folder / "ipsec.secrets").chmod(0o600)
        nss = self.folder / "nss"
        nss.mkdir()
        certutil = FOLDER / "usr/bin/certutil"
        if not certutil.exists():
            certutil = "/usr/bin/certutil"
        self.host.run(*self._argv(certutil, "-N", "-d", f"sql:{nss}", "--empty-password"))

    def start(self, connection):
        """Starts pluto and loads one connection."""
        self.process = self.host.spawn(
            *self._argv(
                *self.wrap, "/usr/libexec/ipsec/pluto", "--nofork", "--stderrlog", "--no-dnssec",
                "--config", self.folder / "ipsec.conf",
                "--secretsfile", self.folder / "ipsec.secrets",
                "--ipsecdir", self.folder, "--nssdir", self.folder / "nss",
                "--rundir", self.folder, "--use-xfrm", "--nhelpers", "0",
            ),
            log=self.folder / "pluto.log",
        )  # fmt: skip
        self._wait_control()
        self.whack("--rereadsecrets", check=False)
        self.whack("--listen", check=False)
        self.host.run(
            *self._argv(
                PROGRAMS / "addconn", "--config", self.folder / "ipsec.conf",
                "--ctlsocket", self.folder / "pluto.ctl", connection,
            )
        )  # fmt: skip

    def _wait_control(self):
        def there():
            if not self.process.alive():
                raise LabError(f"pluto on {self.host.name} ended:\n{self.output()[-3000:]}")
            # The socket has its name a moment before it accepts.
            return (self.folder / "pluto.ctl").exists() and (
                self.whack("--globalstatus", check=False).returncode == 0
            )

        wait_for(f"pluto on {self.host.name}", there)

    def whack(self, *args, check=True, timeout=PATIENCE_S):
        return self.host.run(
            *self._argv(PROGRAMS / "whack", "--ctlsocket", self.folder / "pluto.ctl", *args),
            check=check, timeout=timeout,
        )  # fmt: skip

    def initiate(self, connection):
        """Negotiates a connection; raises LabError with pluto's words when it fails."""
        done = self.whack("--initiate", "--name", connection, check=False)
        if "established Child SA" not in done.stdout:
            raise LabError(f"pluto: {done.stdout}{done.stderr}\n{self.output()[-3000:]}")

    def output(self):
        return self.process.output() if self.process else ""
