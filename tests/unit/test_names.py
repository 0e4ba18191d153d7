"""The names of the data path: a type's name means one thing in the crate."""

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "crates/dataplane/src"

#: A type at the top of a file. Those of test modules are indented.
TYPE = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|union|trait|type) (\w+)", re.M)


def types(files):
    """The files that define a type of each name."""
    found = defaultdict(list)
    for name, text in files:
        for type_name in TYPE.findall(text):
            found[type_name].append(name)
    return found


def twice(files):
    return {name: sorted(places) for name, places in types(files).items() if len(places) > 1}


def test_a_name_with_two_meanings_is_seen():
    first = "pub(crate) struct Kept<'a> {\n}\nenum Way { A }\n    struct Model;\n"
    second = "struct Kept(u8);\npub trait Ways {}\n    struct Model;\n/// enum Way\n"
    assert twice([("a.rs", first), ("b.rs", second)]) == {"Kept": ["a.rs", "b.rs"]}


def test_every_name_means_one_thing():
    files = [(str(path.relative_to(SOURCE)), path.read_text()) for path in sorted(SOURCE.rglob("*.rs"))]
    assert len(types(files)) > 200
    assert twice(files) == {}
