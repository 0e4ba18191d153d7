"""The floors of the data path: no file uses a floor above its own (ARCHITECTURE.md)."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "crates/dataplane/src"

sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
import file_graph  # noqa: E402


def floors(text):
    """The floors of the table, from the ground up: lists of rooms, of which each may be several that stand as one."""
    section = text.split("## The floors of the data path", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.M)
    found = [[re.findall(r"`(\w+)`", room) for room in row.split(",")] for row in rows]
    return found[::-1]


def room(file):
    """The folder or file at the top that a source belongs to."""
    return file.relative_to(SOURCE).parts[0].removesuffix(".rs")


def wrong(order, edges):
    """The uses that do not go down, as texts; a room that stands nowhere is wrong too."""
    place = {name: (at, n) for at, floor in enumerate(order) for n, together in enumerate(floor) for name in together}
    for file, other, names in edges:
        pair = (room(file), room(other))
        if "lib" in pair or pair[0] == pair[1]:
            continue
        if missing := [name for name in pair if name not in place]:
            yield f"{missing[0]} stands on no floor"
        elif place[pair[0]] != place[pair[1]] and place[pair[0]][0] <= place[pair[1]][0]:
            yield f"{file.relative_to(SOURCE)} uses {', '.join(sorted(names))} of {other.relative_to(SOURCE)}"


def test_an_arrow_upwards_is_seen():
    order = floors("## The floors of the data path\n\n| `a` | x |\n| `b` with `c`, `d` | y |\n\n## Next\n\n| `e` | z |\n")
    assert order == [[["b", "c"], ["d"]], [["a"]]]
    files = {name: SOURCE / f"{name}.rs" for name in "abcde"}
    uses = lambda pair: (files[pair[0]], files[pair[1]], {"It"})  # noqa: E731
    assert list(wrong(order, map(uses, ("ab", "bc", "cb")))) == []
    assert list(wrong(order, map(uses, ("ba", "bd", "ae")))) == [
        "b.rs uses It of a.rs", "b.rs uses It of d.rs", "e stands on no floor"
    ]  # fmt: skip


def test_uses_go_down():
    order = floors((ROOT / "ARCHITECTURE.md").read_text())
    edges = file_graph.uses(file_graph.read(SOURCE / "lib.rs"))
    assert len(order) > 5 and len(edges) > 100
    assert sorted(set(wrong(order, [(*pair, names) for pair, names in edges.items()]))) == []
