"""strongSwan, as the distribution ships it: one charon-systemd per host, driven by swanctl."""

import re
import shutil
from pathlib import Path

from .base import PATIENCE_S, CommandFailed, LabError, wait_for

CHARON = "/usr/sbin/charon-systemd"

#: The plugins of Debian's base packages, in charon's own order. Named one by one so that what else
#: is installed on the machine cannot change a test.
PLUGINS = (
    "aesni aes sha2 sha1 md5 mgf1 random nonce x509 revocation constraints pubkey pkcs1 pkcs7 pkcs8 "
    "pkcs12 pem openssl curve25519 chapoly kdf drbg hmac gcm ctr ccm attr {kernel}kernel-netlink "
    "resolve socket-default updown vici eap-identity eap-mschapv2 "
    "xauth-generic counters"
)

#: The folders that swanctl looks into; it complains about each that is missing.
FOLDERS = (
    "bliss conf.d ecdsa pkcs12 pkcs8 private pubkey rsa x509 x509aa x509ac x509ca x509crl x509ocsp"
).split()

_CONF = """\
# Written by the lab.
charon-systemd {{
  load = {plugins}
  retransmit_base = 1.4
  retransmit_timeout = 1.0
  retransmit_tries = 5
  plugins {{
    vici {{
      socket = unix://{vici}
    }}
    kernel-libipsec {{
      allow_peer_ts = yes
    }}
  }}
  filelog {{
    lab {{
      path = {log}
      flush_line = yes
      append = yes
      time_format = %T
      default = 1
      knl = 2
    }}
  }}
}}
{extra}
"""


class Swan:
    """strongSwan on one host.

    `kernel` names kernel plugins to put before kernel-netlink. `wrap` is put before the daemon's
    command line (this is how `culvert exec` comes in).
    """

    def __init__(self, host, kernel="", wrap=()):
        self.host, self.wrap = host, list(wrap)
        self.kernel = kernel
        self.vici = host.lab.tmp / f"{host.name}.vici"
        self.log = host.lab.tmp / f"{host.name}-charon.log"
        self.process = None
        #: Environment of charon, beyond the lab's own.
        self.environment = {}
        self.etc = host.etc / "swanctl"
        for folder in FOLDERS:
            (self.etc / folder).mkdir(parents=True, exist_ok=True)

    def configure(self, swanctl, extra=""):
        """Writes swanctl.conf and strongswan.conf; `extra` is appended to the latter."""
        plugins = PLUGINS.format(kernel=self.kernel + " " if self.kernel else "")
        (self.host.etc / "strongswan.conf").write_text(
            _CONF.format(plugins=plugins, vici=self.vici, log=self.log, extra=extra)
        )
        (self.etc / "swanctl.conf").write_text(swanctl)

    def certificate(self, pki, name):
        """Installs an identity of `pki` (see pki.Authority), with its authority."""
        shutil.copy(pki.ca_cert, self.etc / "x509ca" / "ca.pem")
        shutil.copy(pki.cert(name), self.etc / "x509" / f"{name}.pem")
        shutil.copy(pki.key(name), self.etc / "private" / f"{name}.pem")

    def argv(self, *argv):
        """The command line of one of strongSwan's programs."""
        return list(argv)

    def start(self, load=True):
        """Starts charon, waits for its control socket, and loads the configuration."""
        Path(self.vici).unlink(missing_ok=True)
        self.host.refresh_etc()
        self.process = self.host.spawn(*self.wrap, *self.argv(CHARON), env=self.environment)

        def ready():
            if not self.process.alive():
                raise LabError(f"charon on {self.host.name} ended:\n{self.output()[-3000:]}")
            # The socket has its name a moment before it accepts.
            return self.vici.exists() and self.swanctl("--stats", check=False).returncode == 0

        wait_for(f"charon on {self.host.name}", ready)
        if load:
            self.load()

    def stop(self):
        """SIGTERM: charon deletes its SAs and policies on the way out."""
        return self.process.stop(timeout=PATIENCE_S)

    def output(self):
        """Its log, and what went to the terminal."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return (self.process.output() if self.process else "") + text

    def swanctl(self, *args, check=True, timeout=PATIENCE_S):
        """`swanctl ARGS` on this host's instance; returns the finished process."""
        argv = self.argv("swanctl", *args, "--uri", f"unix://{self.vici}")
        return self.host.run(*argv, check=check, timeout=timeout)

    def load(self):
        """Loads swanctl.conf. A connection that does not load is an error (swanctl may say 0)."""
        done = self.swanctl("--load-all")
        text = done.stdout + done.stderr
        if "failed" in text or "no connections found" in text:
            raise LabError(f"swanctl --load-all on {self.host.name}:\n{text}\n{self.output()}")
        return text

    def initiate(self, child="net", timeout=PATIENCE_S // 2):
        """Negotiates a child; raises LabError with charon's words when it fails."""
        try:
            return self.swanctl(
                "--initiate", "--child", child, "--timeout", timeout
            ).stdout
        except CommandFailed as failed:
            raise LabError(
                f"initiate {child} on {self.host.name}: {failed.stdout[-2500:]}\n"
                f"---- log:\n{self.output()[-3000:]}"
            ) from failed

    def terminate(self, *, ike=None, child=None):
        """Deletes an IKE_SA or a CHILD_SA by name."""
        which = ["--ike", ike] if ike else ["--child", child]
        return self.swanctl("--terminate", *which, check=False).stdout

    def rekey(self, *, ike=None, child=None):
        """Starts rekeying an IKE_SA or a CHILD_SA by name."""
        which = ["--ike", ike] if ike else ["--child", child]
        return self.swanctl("--rekey", *which).stdout

    def sas(self):
        """The IKE_SAs, as `swanctl --list-sas` knows them: a list of (name, fields).

        A field is text, a list, or a dict; CHILD_SAs stand under "child-sas".
        """
        found = []
        for line in self.swanctl("--list-sas", "--raw").stdout.splitlines():
            match = re.match(r"list-sa event (.*)$", line)
            if match:
                found.extend(parse_raw(match.group(1)).items())
        return found

    def children(self, name=None, state="INSTALLED"):
        """The CHILD_SAs in a state (None: any), of one name or of all."""
        return [
            child
            for _, sa in self.sas()
            for child in sa.get("child-sas", {}).values()
            if (state is None or child["state"] == state)
            and (name is None or child["name"] == name)
        ]


def parse_raw(text):
    """Parses what `swanctl --raw` prints after the event's name: `{a=b c {d [e f]}}`."""
    tokens = re.findall(r"[{}\[\]]|[^\s{}\[\]]+", text)
    position = 0

    def section():
        nonlocal position
        fields = {}
        while position < len(tokens) and tokens[position] != "}":
            token = tokens[position]
            position += 1
            follows = tokens[position] if position < len(tokens) else ""
            key, equals, value = token.partition("=")
            if equals and not (value == "" and follows == "["):
                # A value with blanks arrives as several tokens without "=".
                while follows not in "{}[]" and "=" not in follows and _bare(position):
                    value += " " + follows
                    position += 1
                    follows = tokens[position] if position < len(tokens) else ""
                fields[key] = value
            elif follows == "{":
                position += 1
                fields[token] = section()
            elif follows == "[":
                position += 1
                items = []
                while tokens[position] != "]":
                    items.append(tokens[position])
                    position += 1
                position += 1
                fields[key] = items
        position += 1
        return fields

    def _bare(at):
        after = tokens[at + 1] if at + 1 < len(tokens) else ""
        return after not in ("{", "[")

    if tokens and tokens[0] == "{":
        position = 1
    return section()
