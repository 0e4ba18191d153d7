"""Programs compare the fields of answers as values: a text for people may be worded anew at any time."""

import re
from pathlib import Path

import pytest

CRATES = Path(__file__).resolve().parents[2] / "crates"

#: Crates that read answers, or put them together.
READERS = ("control", "culvert", "doctor")


def fields(kind):
    """Names of the fields of answers whose type matches."""
    sources = "".join(file.read_text().split("#[cfg(test)]")[0] for file in (CRATES / "report/src").glob("*.rs"))
    return set(re.findall(rf"^    pub (\w+): (?:Option<)?(?:{kind})>?,$", sources, re.MULTILINE))


#: Enums of words.
WORDS = "|".join(
    re.findall(r"^words! \{\n(?:    ///.*\n)+    (\w+),", "".join(f.read_text() for f in (CRATES / "report/src").glob("*.rs")), re.MULTILINE)
)

#: Fields that are words have their names as variables, too.
NAMES = "|".join(sorted(fields(WORDS) | {"warning", "warnings"}))
MEMBERS = "|".join(sorted(fields("String") | fields(WORDS)))
#: The head of an HTTP request has a path too, which is no answer's.
COMPARED = re.compile(
    rf"""(?:\b(?:{NAMES})|(?<!\bhead)\.(?:{MEMBERS}))(?:\.as_str\(\)|\.as_deref\(\))?\s*(?:
        (?:==|!=)\s*(?:Some\()?"
        | \.(?:starts_with|ends_with|contains|eq|strip_prefix|strip_suffix)\("
        | (?<=\))\s*,\s*"[^"]*"\s*(?:\||\))
    )""",
    re.VERBOSE,
)


def compared(text):
    """Comparisons with a text, tests left out."""
    return COMPARED.findall(text.split("#[cfg(test)]")[0])


def test_fields_are_found():
    assert {"state", "fate", "placement", "kind", "polling", "becomes"} <= fields(WORDS)
    assert {"spi", "text", "engine"} <= fields("String")


def test_no_program_compares_a_text_for_people():
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
        'warning.contains("have one key")',
        'flow.fate == "dropped"',
        'status.engine.starts_with("openssl")',
    ],
)
def test_a_comparison_is_found(code):
    assert compared(f"if {code} {{") and not compared(f"#[cfg(test)]\n{code}")


@pytest.mark.parametrize("code", ['warn!(port = self.config.interface, "closed")', 'name == "nat"', "port.kind == PortKind::Packet"])
def test_others_are_let_be(code):
    assert not compared(code)
