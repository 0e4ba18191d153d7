"""A host in a user namespace of somebody who is nobody: with network and mount namespaces that are its own, and no
right over the machine. What a rootless container is, without the container."""

import os
import subprocess
from pathlib import Path

from .base import NETNS, LabError, Process, sh, wait_for
from .host import Host
from .planes import culvert_binary

#: `nobody`, and its group.
NOBODY = 65534

_AS_NOBODY = [
    "setpriv", "--pdeathsig", "KILL", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups",
]  # fmt: skip

#: Has a folder of its own for runtime state, and waits.
_HOLDER = "mount -t tmpfs tmpfs /run && mkdir /run/culvert && echo held && exec sleep infinity"

#: Puts the files of a folder over those of /etc, as `ip netns exec` does.
_REFRESH = """\
for file in "$0"/*; do
  mountpoint -q "/etc/${file##*/}" && umount "/etc/${file##*/}"
  mount --bind "$file" "/etc/${file##*/}" || exit 1
done
"""


def missing():
    """Why there can be no such host here; an empty text when there can."""
    done = sh(*_AS_NOBODY, "unshare", "--user", "--map-root-user", "--net", "test", "-x", culvert_binary(), check=False)
    return f"no user namespaces, or a binary that nobody may read: {done.stderr}" if done.returncode else ""


class RootlessHost(Host):
    """A host whose processes are root of a user namespace, and nobody outside of it."""

    def create(self, forward):
        log = self.lab.tmp / f"{self.name}-holder.log"
        # Its processes write there.
        os.chown(self.lab.tmp, NOBODY, NOBODY)
        with open(log, "ab") as out:
            popen = subprocess.Popen(
                [*_AS_NOBODY, "unshare", "--user", "--map-root-user", "--net", "--mount",
                 "sh", "-c", _HOLDER],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.holder = Process(popen, ["holder"], log)
        self.lab.processes.append(self.holder)
        wait_for(f"a user namespace for {self.name}", lambda: self._is_held())
        # By this name the lab's own commands find it.
        NETNS.mkdir(exist_ok=True)
        (NETNS / self.ns).touch()
        sh("mount", "--bind", f"/proc/{self.holder.pid}/ns/net", NETNS / self.ns)
        super().create(forward)

    def _is_held(self):
        if not self.holder.alive():
            raise LabError(f"no user namespace for {self.name}: {self.holder.output()}")
        return "held" in self.holder.output()

    def _add_namespace(self):
        """It has one."""

    def refresh_etc(self):
        for file in (self.etc, *self.etc.rglob("*")):
            os.chown(file, NOBODY, NOBODY)
        for name in os.listdir(self.etc):
            if not (Path("/etc") / name).exists():
                raise LabError(f"/etc/{name} is not there, and nobody can make it")
        self.run("sh", "-c", _REFRESH, self.etc)

    def argv(self, *argv):
        entry = ["nsenter", "--target", str(self.holder.pid), "--user", "--net", "--mount"]
        return [*entry, *map(str, argv)]

