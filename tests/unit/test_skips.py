"""What may be skipped where CULVERT_REQUIRE is set: lab/skips.py and its list."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from lab import skips

TESTS = Path(__file__).resolve().parents[1]

CONFTEST = """
import pytest
from lab import skips

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    skips.judge(outcome.get_result())

def pytest_terminal_summary(terminalreporter):
    skips.summary(terminalreporter)
"""

CASES = """
import pytest

def test_decided():
    pytest.skip("not in the sample: make scenarios-full ONLY=nat")

@pytest.mark.skipif(True, reason="no such program")
def test_undecided():
    pass

@pytest.mark.xfail
def test_excused():
    assert False
"""

#: Texts whose beginning is worked out while a test runs: examples of them. That of `culvert_missing` is no skip there.
WORKED_OUT = {
    "rtl.missing()": ["/x/culvert is not built (make build-rtl)", "/x/culvert has no simulated gateway (make build-rtl)"],
    "why": ["no user namespaces, or a binary that nobody may read: x", "this kernel has no AppArmor (make kernel builds one that has)"],
}

#: Reasons that only a machine without `scripts/setup` has, or that fail by themselves where CULVERT_REQUIRE is set.
NEVER = ("frr is not installed", "no promtool", "culvert is not built", "missing")


def texts(file):
    """The reasons of a file's skips: constants, formatted strings with `x` for what they insert, other words as they are."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        given = [k.value for k in node.keywords if k.arg == "reason"] if name == "pytest.mark.skipif" else node.args[:1]
        for value in given if name in ("pytest.skip", "pytest.mark.skipif") else []:
            if isinstance(value, ast.Constant):
                yield value.value
            elif isinstance(value, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else "x" for part in value.values)
            else:
                yield ast.unparse(value)


def suites():
    return [file for folder in ("scenarios", "cookbook", "attacks", "beside", "lab") for file in (TESTS / folder).rglob("*.py")]


def test_every_skip_of_a_suite_is_decided():
    found = {text: file for file in suites() for text in texts(file)}
    assert len(found) > 30
    reasons = [(example, file) for text, file in found.items() for example in WORKED_OUT.get(text, [text])]
    undecided = [f"{file.relative_to(TESTS)}: {text}" for text, file in reasons
                 if not text.startswith(NEVER) and not skips.decision(text)]  # fmt: skip
    assert not undecided


@pytest.mark.parametrize("reason", [
    "a guest's kernel: /x/build/kernel/linux-6.12 is not there (make kernel, or make kernel PREBUILT=1)",
    "/x/build/kernel/linux-6.12 does not boot on this processor: no (make kernel VERSION=7.2)",
    "strongSwan 6: /x/build/charon6 is missing (make charon6)",
])  # fmt: skip
def test_what_the_lab_says_is_decided(reason):
    assert skips.decision(reason)


def test_every_decision_says_why_and_what_runs_it():
    for entry in skips.decisions():
        assert set(entry) == {"reason", "why", "run"} and all(entry.values())
        re.compile(entry["reason"])


@pytest.mark.parametrize("required", ["", "1"])
def test_a_skip_that_nobody_decided_fails(tmp_path, required):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_cases.py").write_text(CASES)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "."], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(TESTS), "CULVERT_REQUIRE": required},
    )  # fmt: skip
    said = "1 skipped, 1 xfailed, 1 error" if required else "2 skipped, 1 xfailed"
    assert said in done.stdout, done.stdout
    assert ("skipped: no such program" in done.stdout) == bool(required)
    assert ("1 for `not in the sample`: " in done.stdout) == bool(required)
