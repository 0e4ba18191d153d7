"""The prose of the sources: a doc comment says more than the name that it stands on."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CRATES = ROOT / "crates"

#: The least words of a doc comment of one line: fewer repeat the name.
LEAST_WORDS = 3


def sources():
    """The Rust sources, tests among them."""
    return [path for path in sorted(CRATES.rglob("*.rs")) if "target" not in path.parts]


def short_docs(text):
    """The doc comments that say too little, with the numbers of their lines."""
    lines = [line.strip() for line in text.splitlines()]
    for at, line in enumerate(lines):
        beside = [lines[at - 1] if at else "", lines[at + 1] if at + 1 < len(lines) else ""]
        is_doc = line.startswith("///") and not line.startswith("////")
        if is_doc and not any(other.startswith("///") for other in beside):
            words = line.removeprefix("///").split()
            if len(words) < LEAST_WORDS:
                yield f"{at + 1}: {line}"


def without_subject(text):
    """The paragraphs of doc comments that begin with a question word, where a noun would say what the thing is."""
    before = ""
    for at, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        is_first = not before.startswith(line[:3]) or re.fullmatch(r"//[/!]( #.*)?", before)
        if is_first and re.match(r"//[/!] (What|Whether|The one that)\b", line):
            yield f"{at}: {line}"
        before = line


def opaque_words(text):
    """The lines with a word that hides who does it."""
    for at, line in enumerate(text.splitlines(), 1):
        if re.search(r"\bwhoever\b", line, re.I):
            yield f"{at}: {line.strip()}"


def faults(find):
    return [f"{path.relative_to(ROOT)}:{fault}" for path in sources() for fault in find(path.read_text())]


def test_a_short_doc_is_seen():
    text = "/// Its name.\nname: u8,\n/// Name of\n/// it.\nof: u8,\n/// Name of the port.\n//// no doc\n"
    assert list(short_docs(text)) == ["1: /// Its name."]


def test_a_doc_without_a_subject_is_seen():
    text = "//! What it does.\n\n/// Whether it is.\n/// Its name:\n/// What it is.\n// What\n/// Whatever.\n"
    text += "///\n/// What fails.\n///\n/// # Errors\n/// What is wrong.\n"
    found = ["1: //! What it does.", "3: /// Whether it is.", "9: /// What fails.", "12: /// What is wrong."]
    assert list(without_subject(text)) == found


def test_an_opaque_word_is_seen():
    assert list(opaque_words("// Told to\n// Whoever asks.\n")) == ["2: // Whoever asks."]


def test_every_doc_says_something():
    assert faults(short_docs) == []


def test_every_doc_has_a_subject():
    assert faults(without_subject) == []


def test_every_doer_is_named():
    assert faults(opaque_words) == []
