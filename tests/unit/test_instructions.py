"""scripts/instructions: what it reads from callgrind, and what it says about counts."""

import importlib.machinery
import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "instructions"

PROFILE = """\
version: 1
positions: line
events: Ir
ob=(1) /a/program
fl=(1) a.rs
fn=(1) one
10 5
+2 7
cob=(2) /usr/lib/libIPSec_MB.so.1
cfn=(2) seal
calls=3 0
12 600
* 1
fn=(3) two
-4 20

ob=(2)
fn=(2)
0 600
ob=(1)
fn=(1)
11 2
totals: 635
"""


@pytest.fixture(name="script")
def fixture_script(tmp_path, monkeypatch):
    loader = importlib.machinery.SourceFileLoader("instructions", str(SCRIPT))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("instructions", loader))
    loader.exec_module(script)
    monkeypatch.setattr(script, "RECORD", tmp_path / "instructions.toml")
    return script


def test_own_costs_by_object_and_function(script):
    own = script.parse(PROFILE)
    assert own["/a/program", "one"] == 5 + 7 + 1 + 2
    assert own["/a/program", "two"] == 20
    assert own["/usr/lib/libIPSec_MB.so.1", "seal"] == 600
    assert script.total(own) == 35


@pytest.mark.parametrize(
    ("now", "status", "says"),
    [
        (100, 0, "0 wrong"),
        (102, 0, "0 wrong"),
        (98, 0, "0 wrong"),
        (104, 1, "more than recorded"),
        (96, 1, "less than recorded"),
    ],
)
def test_a_few_per_cent_either_way(script, capsys, now, status, says):
    script.RECORD.write_text(script.HEAD + "\na-64 = 100\n")
    assert script.check({"a-64": now}) == status
    assert says in capsys.readouterr().out


def test_cases_and_record_must_be_the_same(script, capsys):
    script.RECORD.write_text("gone = 100\n")
    assert script.check({"new": 50}) == 1
    out = capsys.readouterr().out
    assert "not in the record" in out and "no case any more" in out


def test_no_record_at_all_is_wrong(script):
    assert script.check({"a": 1}) == 1
