"""What every guest has in common, made once per run: /usr/local and /usr/lib/ipsec.

/usr/local holds the suite's own programs, stand-ins for those of a machine's start-up (systemctl,
ifup), and culvert. /usr/lib/ipsec is the machine's, with the plugins and programs of the packages
that are used and not installed. Both are seen only inside the guests.
"""

import shutil
from pathlib import Path

from lab import charon6
from lab.base import LabError
from lab.planes import ROOT, culvert_binary

#: Where guests find programs, first to last.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_GUEST = Path(__file__).resolve().parent / "guest"
_STAND_INS = ("add-tunnel.sh", "ip.sh", "ipsec.sh", "set-cpu-affinity.sh", "systemctl.sh", "ifup.py")


class Common:
    """The shared folders, under `folder`."""

    def __init__(self, suite, folder, open_filters=False, is_charon6=False):
        self.suite, self.folder = suite, Path(folder)
        #: The default policies of the suite's packet filters are "accept": to see what else fails.
        self.open_filters = open_filters
        #: The IKE daemon is strongSwan 6, and hosts have as many processors as the suite says.
        self.is_charon6 = is_charon6
        self.local = self.folder / "local"
        self.ipsec = self.folder / "ipsec"
        self.debian = suite.folder / "debian"
        self.www = (suite.folder / "www").resolve()

    def make(self):
        for name in ("bin", "sbin", "lib/suite", "libexec", "share"):
            (self.local / name).mkdir(parents=True)
        binary = culvert_binary()
        library = binary.with_name("libculvert_preload.so")
        for file in (binary, library):
            if not file.exists():
                raise LabError(f"{file} is missing: build it first (make build)")
            shutil.copy2(file, self.local / "bin")
        for file in (self.suite.hosts / "default/usr/local/bin").glob("expect-*"):
            self._program(file, "bin")
        for name in _STAND_INS:
            self._program(_GUEST / name, "sbin")
        (self.local / "sbin/ifdown").symlink_to("ifup")
        self._program(_GUEST / "iptables-restore.sh", "sbin")
        (self.local / "sbin/ip6tables-restore").symlink_to("iptables-restore")
        if self.open_filters:
            (self.local / "lib/suite/open-filters").touch()
        self._program(_GUEST / "web.py", "libexec")
        shutil.copy(Path(__file__).with_name("network.py"), self.local / "lib/suite")
        # The suite's configurations name strongSwan's default installation folders.
        (self.local / "libexec/ipsec").symlink_to("/usr/lib/ipsec")
        if not self.is_charon6:
            (self.local / "sbin/swanctl").symlink_to("/usr/sbin/swanctl")
        # Debian's leads through /etc/alternatives, and guests have an /etc of their own.
        traceroute = shutil.which("traceroute")
        if traceroute:
            (self.local / "sbin/traceroute").symlink_to(Path(traceroute).resolve())
        shutil.copytree(self.debian, self.local / "lib/debian", symlinks=True)
        if self.is_charon6:
            self._charon6()
            return self
        shutil.copytree("/usr/lib/ipsec", self.ipsec, symlinks=True)
        shutil.copytree(
            self.debian / "usr/lib/ipsec", self.ipsec, symlinks=True, dirs_exist_ok=True
        )
        xfrmi = self.ipsec / "xfrmi"
        if xfrmi.exists():
            xfrmi.rename(self.ipsec / "xfrmi.strongswan")
            shutil.copy(_GUEST / "xfrmi.sh", xfrmi)
            xfrmi.chmod(0o755)
        return self

    def _charon6(self):
        """strongSwan 6's folder in the place of the machine's, and its programs before the machine's."""
        (self.local / "lib/suite/charon6").write_text(f"{charon6.FOLDER}\n")
        for name in ("charon-systemd", "swanctl"):
            shutil.copy(_GUEST / "charon6.sh", self.local / "sbin" / name)
        shutil.copytree(charon6.FOLDER / "usr/lib/ipsec", self.ipsec, symlinks=True)

    def _program(self, file, where):
        target = self.local / where / file.name.removesuffix(".sh").removesuffix(".py")
        shutil.copy(file, target)
        target.chmod(0o755)

    def plugins(self):
        """The names of strongSwan's plugins that guests have."""
        found = self.ipsec.glob("plugins/libstrongswan-*.so")
        return {file.stem.removeprefix("libstrongswan-") for file in found}

    def has(self, program):
        """Whether guests have a program."""
        if program.startswith("/usr/local/libexec/ipsec/"):
            return (self.ipsec / Path(program).name).exists()
        if program.startswith("/usr/local/"):
            return (self.local / Path(program).relative_to("/usr/local")).exists()
        if program.startswith("/"):
            return Path(program).exists()
        places = PATH.split(":")
        return any((self.local / place).exists() for place in (f"bin/{program}", f"sbin/{program}")) or any(
            (Path(place) / program).exists() for place in places[2:]
        )


def suite_folder(is_charon6=False):
    return ROOT / "build" / ("strongswan-suite6" if is_charon6 else "strongswan-suite")
