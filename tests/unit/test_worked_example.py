"""The worked example in CONTRIBUTING.md: a feature as a diff, which must fit the tree as it is."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: The most files of the data path that a feature of its size may touch.
MOST_FILES = 3


def example():
    """The diff between its fences."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    found = re.findall(r"^```diff\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, "CONTRIBUTING.md has one diff"
    return found[0]


def apply(diff):
    command = ["git", "apply", "--check", "-"]
    return subprocess.run(command, input=diff, cwd=ROOT, capture_output=True, text=True, check=False)


def test_it_applies_to_the_tree():
    done = apply(example())
    assert done.returncode == 0, f"CONTRIBUTING.md's example is old: {done.stderr}"


def test_one_for_another_tree_does_not():
    other = example().replace(" pub(crate) mod device;", " pub(crate) mod gadget;")
    assert apply(other).returncode != 0


def test_it_touches_few_files():
    files = re.findall(r"^\+\+\+ b/(.*)$", example(), re.MULTILINE)
    assert len(files) <= MOST_FILES, files
    assert all(file.startswith("crates/dataplane/src/") for file in files), files
