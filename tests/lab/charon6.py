"""strongSwan 6 of Debian testing on a host, unpacked and not installed (see scripts/fetch-charon6).

It needs libraries that are newer than the machine's: its /usr is mounted over the machine's in a mount
namespace of its own, which ends with the process.
"""

import re
import shlex

from .base import ROOT
from .swan import Swan

FOLDER = ROOT / "build" / "charon6"

_RUN = "mount --make-rprivate / && mount --bind {usr} /usr && exec {command}"


def missing():
    """Why strongSwan 6 cannot be used; an empty text when it can."""
    there = (FOLDER / "usr/sbin/charon-systemd").exists()
    return "" if there else f"{FOLDER} is missing (make charon6)"


def argv6(*argv):
    """The command line of a program of that /usr; what stands before it is the machine's."""
    command = shlex.join(map(str, argv))
    return ["unshare", "--mount", "sh", "-c", _RUN.format(usr=FOLDER / "usr", command=command)]


def states6(gateway):
    """`ip xfrm state`, by the iproute2 that knows all attributes: a text for each SA."""
    text = gateway.host.run(*gateway.swan.wrap, *argv6("ip", "xfrm", "state")).stdout
    return [f"src {state}" for state in re.split(r"^src ", text, flags=re.MULTILINE)[1:]]


class Swan6(Swan):
    """A `Swan` of that /usr. culvert and what else is put before it remain the machine's."""

    def argv(self, *argv):
        return argv6(*argv)

    def configure(self, swanctl, extra=""):
        # Those of the machine's swanctl that there are no more it would complain about.
        super().configure(swanctl, f"swanctl {{\n  load = pem pkcs1 pkcs8 x509 openssl\n}}\n{extra}")
