"""Why a scenario need not pass: what this machine lacks, and what culvert lacks.

A scenario is not even run when a plugin or program that it needs is not there (found out by
looking), or when the list says that it cannot run here. It is run, and may fail, when it is listed
under a feature that culvert does not have; when it passes all the same, the list is out of date.
"""

import fnmatch
import re
import socket
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from . import dat

FILE = Path(__file__).resolve().parents[1] / "strongswan-suite.toml"

#: Services that `systemctl` and `service` know in a guest.
_SERVICES = {"strongswan", "apache2"}


def _has_gre():
    """Tried in a namespace that goes with the command."""
    make = "ip link add cvgre type gre local 127.0.0.1 remote 127.0.0.2".split()
    return subprocess.run(["unshare", "-n", *make], capture_output=True, check=False).returncode == 0


def _has_af_alg():
    try:
        socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).close()
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class Excuse:
    """`runs`: it is run and may fail."""

    reason: str
    runs: bool


class ExcuseError(Exception):
    """The list cannot be understood."""


def configuration_of(name, program="culvert"):
    """What a scenario needs in culvert's configuration, where Linux has no word for it, or in strongswan.conf."""
    entries = tomllib.loads(FILE.read_text()).get(program, [])
    return "".join(entry["configuration"] for entry in entries if name in entry["scenarios"])


def stand_ins():
    """The plugins that are loaded in place of others."""
    return tomllib.loads(FILE.read_text()).get("stand_ins", {})


class Excuses:
    def __init__(self, text, names):
        """Reads the list; `names` are all scenarios, to find entries that match none."""
        table = tomllib.loads(text)
        self.sample = table.get("sample", [])
        self.stand_ins = table.get("stand_ins", {})
        self._by_name = {}
        for section, runs, key in (("cannot", False, "reason"), ("lacks", True, "feature")):
            for entry in table.get(section, []):
                reason = entry[key] if not runs else f"culvert lacks: {entry[key]}"
                for pattern in entry["scenarios"]:
                    matched = fnmatch.filter(names, pattern)
                    if not matched:
                        raise ExcuseError(f"{FILE.name}: no scenario matches {pattern}")
                    for name in matched:
                        self._by_name.setdefault(name, Excuse(reason, runs))
        unknown = [name for name in self.sample if name not in names]
        if unknown:
            raise ExcuseError(f"{FILE.name}: no such scenario in `sample`: {', '.join(unknown)}")

    def of(self, scenario, common):
        """The excuse of a scenario, or None. What is listed goes before what is found out."""
        listed = self._by_name.get(scenario.name)
        if listed and not listed.runs:
            return listed
        found = self._missing(scenario, common)
        return Excuse(found, False) if found else listed

    def _missing(self, scenario, common):
        plugins = sorted(scenario.plugins() - common.plugins() - set(self.stand_ins))
        if plugins:
            return f"strongSwan plugin missing: {' '.join(plugins)}"
        if "af-alg" in scenario.plugins() and not _has_af_alg():
            return "kernel without AF_ALG"
        if any(re.search(r"mode gre\b", c) for c in scenario.commands()) and not _has_gre():
            return "kernel without GRE"
        if scenario.radius_hosts and not common.has("freeradius"):
            return "program missing: freeradius"
        for command in scenario.commands():
            words = command.strip('" ').split()
            if words[0] in ("systemctl", "service") and len(words) > 2:
                service = words[2] if words[0] == "systemctl" else words[1]
                if words[1] in ("start", "stop", "restart") or words[0] == "service":
                    if service not in _SERVICES:
                        return f"service missing: {service}"
        for program in sorted(dat.programs(scenario.commands())):
            if not common.has(program):
                return f"program missing: {program}"
        return ""
