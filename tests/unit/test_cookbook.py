"""The cookbook: each recipe is complete, in the table, and run by a test."""

import re

import pytest
from lab.base import ROOT
from lab.recipe import COOKBOOK, names, typed

TABLE = re.findall(r"^\| \[([\w-]+)\]\(([\w-]+)/README\.md\) \|", (COOKBOOK / "README.md").read_text(), re.MULTILINE)
TESTS = "".join(path.read_text() for path in (ROOT / "tests" / "cookbook").glob("test_*.py"))


def test_the_table_has_every_recipe():
    assert all(shown == folder for shown, folder in TABLE), TABLE
    assert sorted(shown for shown, _ in TABLE) == names()


@pytest.mark.parametrize("name", names())
def test_a_recipe_is_complete(name):
    folder = COOKBOOK / name
    text = (folder / "README.md").read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert {"That it works", "Usual mistakes"} <= set(headings), headings
    files = {path.name for path in folder.iterdir()} - {"README.md"}
    assert "gwa.culvert.toml" in files and files & {"gwa.swanctl.conf", "gwa.ipsec.conf"}
    unnamed = [file for file in files if f"`{file}`" not in text]
    assert not unnamed, f"{unnamed} are not in the README's table"
    lines = [words for host in ("gwa", "gwb", "gwc") for words in typed(name, host) if words[0] == "cp"]
    copied = {file for words in lines for file in words[1:-1] if "/" not in file}
    made = {file for file in copied if file.endswith(".pem")}
    assert copied - made <= files, copied - files
    # What is made below `Certificates` gets to where it belongs, too.
    assert bool(made) == ("Certificates" in headings) and (not made or {"ca.pem"} < made)
    assert not made or any(file.endswith(".key.pem") for file in made)
    assert {file for file in files if file.startswith("gwa.")} <= copied
    assert f'@recipe("{name}"' in TESTS, "no test in tests/cookbook runs it"
