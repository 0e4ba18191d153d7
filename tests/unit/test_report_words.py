"""Commands compare the fields of answers as values: a text for people may be worded anew at any time."""

import re
from pathlib import Path

import pytest

CRATES = Path(__file__).resolve().parents[2] / "crates"

#: Crates that read answers, or put them together.
READERS = ("control", "culvert", "doctor")

#: Fields of answers that are one of a few words: enums of crate `report`.
FIELDS = "kind|mode|state|source|placement|direction|action|protocol"
COMPARED = re.compile(
    rf"""\.(?:{FIELDS})(?:\.as_str\(\)|\.as_deref\(\))?\s*(?:
        (?:==|!=)\s*(?:Some\()?" | \.(?:starts_with|ends_with|contains)\(" | ,\s*"[a-z-]+"\s*(?:\||\))
    )""",
    re.VERBOSE,
)


def compared(text):
    """Comparisons with a text, tests left out."""
    return COMPARED.findall(text.split("#[cfg(test)]")[0])


def test_no_command_compares_a_text_for_people():
    files = [file for crate in READERS for file in (CRATES / crate / "src").rglob("*.rs") if not file.name.endswith("tests.rs")]
    assert len(files) > 200
    assert {str(file.relative_to(CRATES)): found for file in files if (found := compared(file.read_text()))} == {}


@pytest.mark.parametrize(
    "code",
    [
        'working.mode.starts_with("generic")',
        'port.kind == "packet"',
        'sa.direction.as_deref() == Some("in")',
        'matches!(sa.protocol.as_str(), "esp" | "ah")',
    ],
)
def test_a_comparison_is_found(code):
    assert compared(f"if {code} {{") and not compared(f"#[cfg(test)]\n{code}")
