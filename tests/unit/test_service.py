"""culvert.service, against what the daemon does."""

import re
from pathlib import Path

SERVICE = Path(__file__).resolve().parents[2] / "packaging/culvert.service"


def test_the_daemon_may_set_filters_of_its_own():
    """systemd's @system-service lacks seccomp(2): without it the daemon is killed where it sets its filters."""
    text = SERVICE.read_text()
    allowed = re.findall(r"^SystemCallFilter=(?!~)(.*)$", text, re.MULTILINE)
    assert {"seccomp", "@sandbox"} & set(" ".join(allowed).split()), allowed
