"""The units, against what their programs do."""

import re
from pathlib import Path

import pytest

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
SERVICE = PACKAGING / "culvert.service"


def test_the_daemon_may_set_filters_of_its_own():
    """systemd's @system-service lacks seccomp(2): without it the daemon is killed where it sets its filters."""
    text = SERVICE.read_text()
    allowed = re.findall(r"^SystemCallFilter=(?!~)(.*)$", text, re.MULTILINE)
    assert {"seccomp", "@sandbox"} & set(" ".join(allowed).split()), allowed


def test_a_reload_that_is_refused_fails():
    """A bare signal would end well whatever the daemon says to it, and AppArmor lets the unit's program run."""
    values = dict(re.findall(r"^(\w+)=(.*)$", SERVICE.read_text(), re.MULTILINE))
    assert values["ExecReload"] == "@BINDIR@/culvert reload --pid $MAINPID"
    assert values["ExecStartPre"].startswith("@BINDIR@/culvert check ") and "--offline" not in values["ExecStartPre"]
    assert "@BINDIR@/culvert mrix," in (PACKAGING / "apparmor" / "culvert").read_text()


@pytest.mark.parametrize("name", ["web", "metrics"])
def test_who_only_reads_has_a_user_of_its_own(name):
    """The one that the package makes and that the daemon answers, with a filter of its own and nothing to read."""
    text = (PACKAGING / f"culvert-{name}.service").read_text()
    values = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    assert values["User"] == values["Group"] == "culvert" and values["CapabilityBoundingSet"] == ""
    assert "culvert" in (PACKAGING / "debian" / "culvert.postinst").read_text().split("adduser ")[1].split("\n")[0].split()
    crates = PACKAGING.parent / "crates"
    assert 'reader: "culvert"' in (crates / "config/src/security.rs").read_text()
    assert 'default_value = "culvert"' in (crates / f"culvert/src/cli/{name}.rs").read_text()
    allowed = re.findall(r"^SystemCallFilter=(?!~)(.*)$", text, re.MULTILINE)
    assert "seccomp" in " ".join(allowed).split(), allowed
    hidden = " ".join(re.findall(r"^InaccessiblePaths=(.*)$", text, re.MULTILINE)).replace("-/", "/").split()
    assert {"/run/culvert", "/etc/swanctl", "/etc/shadow", "/etc/culvert"} <= set(hidden)
    assert values["MemorySwapMax"] == "0" and values["ProtectProc"] == "invisible"
