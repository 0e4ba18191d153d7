"""docs/guides/tutorial.md, typed as it stands: all but the build, whose program is the one under test."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from lab.base import NETNS, ROOT
from lab.planes import culvert_binary, culvert_missing

HOSTS = ("left", "right")
#: The folders that it makes.
MADE = [Path("/etc/netns") / host for host in HOSTS]


def blocks():
    """What is typed, by the number of the section."""
    text = (ROOT / "docs/guides/tutorial.md").read_text()
    sections = re.findall(r"^## (\d)\. .*?$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    typed = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return {int(number): "\n".join(typed.findall(section)) for number, section in sections}


def test_what_the_tutorial_says(lab):
    if missing := culvert_missing():
        (pytest.fail if os.environ.get("CULVERT_REQUIRE") else pytest.skip)(missing)
    if any((NETNS / host).exists() for host in HOSTS):
        pytest.skip("somebody has namespaces of these names")
    steps = blocks()
    assert list(steps) == [1, 2, 3, 4, 5, 6, 7]
    # Whatever fails, the last step takes everything away.
    script = lab.tmp / "tutorial.sh"
    last = steps.pop(7)
    typed = "\n".join(steps[number] for number in sorted(steps) if number > 1)
    script.write_text(f"set -euo pipefail\ntrap 'set +e\n{last.replace(chr(39), chr(34))}' EXIT\n{typed}\necho typed\n")
    path = f"{culvert_binary().resolve().parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", script], cwd=lab.tmp, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=180
    )
    said = done.stdout + done.stderr
    logs = "".join(f"\n{log.name}:\n{log.read_text(errors='replace')[-2000:]}" for log in lab.tmp.glob("*.log"))
    assert done.returncode == 0 and "\ntyped\n" in said, said + logs
    assert len(re.findall(r"\b3 received", said)) == 2, said
    assert "2 packets transmitted, 0 received" in said and "nothing gets through" in said, said
    assert "=> protected, and sent by wan" in said and "10.1.0.1" in said, said
    for left in [NETNS / host for host in HOSTS] + MADE:
        assert not left.exists(), f"{left} is left behind"
