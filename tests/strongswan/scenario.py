"""One scenario as its files describe it: hosts, roles, configuration and lines."""

import re
import shlex
import shutil
from pathlib import Path

from . import dat

#: The files that make a scenario.
FILES = ("test.conf", "pretest.dat", "evaltest.dat", "posttest.dat")


class Suite:
    """The unpacked folder `testing` of strongSwan's source."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.testing = self.folder / "testing"
        self.tests = self.testing / "tests"
        self.hosts = self.testing / "hosts"
        self.placeholders = placeholders((self.testing / "testing.conf").read_text())

    def names(self):
        """All scenarios, as GROUP/NAME."""
        return sorted(
            f"{path.parent.parent.name}/{path.parent.name}"
            for path in self.tests.glob("*/*/test.conf")
            if all((path.parent / name).exists() for name in FILES)
        )

    def scenario(self, name):
        return Scenario(self, name)


class Scenario:
    """A scenario; its texts have addresses in place of the suite's placeholders."""

    def __init__(self, suite, name):
        self.suite, self.name = suite, name
        self.folder = suite.tests / name
        self.conf = shell_variables(self._text("test.conf"))
        self.pretest = dat.actions(self._text("pretest.dat"))
        self.checks = dat.checks(self._text("evaltest.dat"))
        self.posttest = dat.actions(self._text("posttest.dat"))
        self.ipsec_hosts = self._words("IPSECHOSTS")
        self.radius_hosts = self._words("RADIUSHOSTS")
        self.db_hosts = self._words("DBHOSTS")
        #: (host, interface) pairs to capture at.
        self.captures = []
        for word in self._words("TCPDUMPHOSTS"):
            host, _, interface = word.partition(":")
            self.captures.append((host, interface or "eth0"))

    def _text(self, name):
        return self.fill((self.folder / name).read_text(errors="replace"))

    def _words(self, name):
        return self.conf.get(name, "").split()

    def fill(self, text):
        """Puts addresses in place of PH_IP_MOON and the like."""
        for word, address in self.suite.placeholders:
            text = text.replace(word, address)
        return text

    def lines(self):
        """All actions and checks."""
        return [*self.pretest, *self.checks, *self.posttest]

    def hosts(self):
        """Every host that takes part, by name."""
        known = sorted({path.name for path in self.suite.hosts.iterdir()} - {"default"})
        # The suite's hosts all run all the time: a line may speak of one that test.conf leaves out.
        raw = " ".join((self.folder / name).read_text(errors="replace") for name in FILES[1:])
        used = [host for host in known if re.search(rf"(?<![a-z]){host}(?![a-z])", raw.lower())]
        if "winnetou" in known:
            used.append("winnetou")
        named = [*self._words("VIRTHOSTS"), *self.ipsec_hosts, *used]
        return [host for host in dict.fromkeys(named) if host in known]

    def commands(self):
        return [line.command for line in self.lines() if line.command != dat.CAPTURE]

    def strongswan_confs(self):
        """The texts of strongswan.conf of the hosts that do IPsec."""
        for host in self.ipsec_hosts:
            file = self.folder / "hosts" / host / "etc/strongswan.conf"
            if file.exists():
                yield host, file.read_text(errors="replace")

    def texts(self):
        """All configuration of the scenario in one text, to look for words in."""
        found = []
        for path in sorted((self.folder / "hosts").rglob("*")):
            if path.is_file() and path.suffix in (".conf", ".sql", ""):
                found.append(path.read_text(errors="replace"))
        return "\n".join(found)

    def plugins(self):
        """The plugins that the IKE daemons of the scenario are told to load."""
        found = set()
        for _, text in self.strongswan_confs():
            for section, value in load_lines(text):
                if section.startswith("charon"):
                    found.update(word.rstrip("!") for word in value.split())
        return found

    def install(self, host, etc):
        """Writes a host's /etc: the suite's default, the host's own, then the scenario's."""
        for source in (self.suite.hosts / "default" / "etc", self.suite.hosts / host / "etc"):
            if source.exists():
                shutil.copytree(source, etc, dirs_exist_ok=True, symlinks=True)
        own = self.folder / "hosts" / host / "etc"
        if not own.exists():
            return
        for path in sorted(own.rglob("*")):
            target = etc / path.relative_to(own)
            if path.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            data = path.read_bytes()
            for word, address in self.suite.placeholders:
                data = data.replace(word.encode(), address.encode())
            target.write_bytes(data)
            shutil.copymode(path, target)


def shell_variables(text):
    """The assignments of a file that a shell sources; `$NAME` in a value is filled in."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*([A-Z0-9_]+)=(.*)", line)
        if match:
            words = shlex.split(match.group(2), comments=True)
            value = words[0] if words else ""
            found[match.group(1)] = re.sub(
                r"\$\{?([A-Z0-9_]+)\}?", lambda name: found.get(name.group(1), ""), value
            )
    return found


def load_lines(text):
    """The pairs (outermost section, value) of each `load = ...` of a strongswan.conf."""
    found, sections = [], []
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        match = re.fullmatch(r"load\s*=\s*(.*)", line)
        if match and len(sections) == 1:
            found.append((sections[0], match.group(1)))
        for word in re.findall(r"[\w-]+\s*\{|\}", line):
            if word == "}":
                sections = sections[:-1]
            else:
                sections.append(word.rstrip("{ "))
    return found


def with_stand_ins(text, stand_ins):
    """A strongswan.conf that loads other plugins in place of some, once each."""

    def loads(match):
        words = [stand_ins.get(word, word) for word in match.group(2).split()]
        words = " ".join(words).split()
        return match.group(1) + " ".join(dict.fromkeys(words))

    return re.sub(r"(?m)^(\s*load\s*=\s*)(.*)$", loads, text)


def placeholders(text):
    """The pairs (PH_IP_MOON1, 10.1.0.1) of testing.conf, in the order of replacement."""
    found = []
    for variable, short in (("HOSTNAMEIPV4", "PH_IP_"), ("HOSTNAMEIPV6", "PH_IP6_")):
        match = re.search(rf'{variable}="([^"]*)"', text)
        for entry in match.group(1).replace("\\", " ").split():
            host, *addresses = entry.split(",")
            # The longer word first: PH_IP_MOON is the beginning of PH_IP_MOON1.
            for number in reversed(range(len(addresses))):
                found.append((f"{short}{host.upper()}{number or ''}", addresses[number]))
    return found
