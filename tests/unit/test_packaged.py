"""What `make install` and the package have for readers: documents whose links lead somewhere, a manual page of the configuration
with every key, and the licences of what is linked in."""

import importlib.machinery
import importlib.util
import re
import shutil
import subprocess
import tomllib

import pytest
from lab.base import ROOT

EXAMPLE = (ROOT / "packaging" / "example.toml").read_text()


def script(name, folder="scripts"):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / folder / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


broken_links = script("test_documents.py", "tests/unit").broken_links


# Documents


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    script("install-documents").install(folder)
    return folder


def test_links_of_installed_documents_lead_somewhere(installed):
    pages = list(installed.rglob("*.md"))
    assert len(pages) > 40
    wrong = [(str(page.relative_to(installed)), link) for page in pages for link in broken_links(page, page.read_text())]
    assert wrong == []


def test_what_is_not_installed_is_no_link():
    places = {"docs/a.md": "docs/a.md", "b.toml": "b.toml"}
    relinked = script("install-documents").relinked
    text = "[`x`](../crates/x.rs) [b](../b.toml#y) [c](https://x.org) [d](#e)\n```\n[f](g)\n```\n"
    assert relinked(text, "docs/a.md", places) == "`x` [b](../b.toml#y) [c](https://x.org) [d](#e)\n```\n[f](g)\n```\n"


def test_documents_that_the_program_names_are_installed(installed):
    sources = "".join(path.read_text() for path in ROOT.glob("crates/*/src/**/*.rs"))
    named = set(re.findall(r"docs/[\w/-]+\.md", sources))
    assert named
    assert [page for page in named if not (installed / page).exists()] == []


def test_the_changelog_leads_to_what_is_new(installed):
    [file] = re.findall(r"is in /usr/share/doc/culvert/(\S+)\.$", (ROOT / "scripts/deb").read_text(), re.M)
    assert "changelog" not in file, "debhelper puts Debian's changelog there"
    assert (installed / file).read_text().startswith("# Changelog")


def test_recipes_and_the_tutorial_are_installed(installed):
    assert (installed / "docs/guides/tutorial.md").exists()
    assert (installed / "example.toml").read_text() == EXAMPLE
    for file in (ROOT / "cookbook").rglob("*"):
        assert file.is_dir() or (installed / file.relative_to(ROOT)).exists(), file


def test_completions_lie_where_debian_s_zsh_looks():
    assert "ZSHDIR=/usr/share/zsh/vendor-completions" in (ROOT / "packaging/debian/rules").read_text()


# The manual page


def keys(table, path=()):
    """The keys of a configuration with their tables: leaves alone, but for tables of priorities."""
    for key, value in table.items():
        parts = value if isinstance(value, list) and value and isinstance(value[0], dict) else [value]
        for part in parts:
            if isinstance(part, dict) and len(path) == 0:
                yield from keys(part, (key,))
            elif isinstance(part, dict) and path in (("device",), ("paths",)):
                yield from keys(part, (*path, key))
            else:
                yield key


@pytest.fixture(scope="module")
def manual():
    return script("man-configuration").manual((ROOT / "docs/reference/configuration.md").read_text(), "0")


def test_the_manual_has_every_key_of_the_example(manual):
    wanted = set(keys(tomllib.loads(EXAMPLE)))
    assert len(wanted) > 90 and {"crypto_cpus", "interval_ms", "dscp_to_pcp"} <= wanted
    heads = " ".join(re.findall(r"^\.TP\n(.+)$", manual, re.M)).replace("\\-", "-")
    named = {word.split(".")[-1] for word in re.findall(r"\\fB([\w.]+)\\fR", heads)}
    assert sorted(wanted - named) == []


def test_the_manual_is_good_roff(manual):
    if not shutil.which("man"):
        pytest.skip("man is missing")
    said = subprocess.run(
        ["man", "--warnings", "--encoding=UTF-8", "-l", "-"], input=manual, capture_output=True, text=True,
        env={"MANWIDTH": "100", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}, check=True,
    )  # fmt: skip
    assert said.stderr == ""
    assert "`" not in re.sub(r"unknown variant.*", "", said.stdout), "code that is not marked"
    assert "](" not in said.stdout, "links that are left"
    for section in ("NAME", "KEYS", "RELOADING", "FILES", "SEE ALSO"):
        assert re.search(f"^{section}$", said.stdout, re.M), section


# Licences


def test_a_licence_is_chosen():
    chosen = script("licences").chosen
    assert chosen("Unlicense OR MIT") == ["MIT"]
    assert chosen("(MIT OR Apache-2.0) AND Unicode-3.0") == ["MIT", "Unicode-3.0"]
    assert chosen("Apache-2.0/MIT") == ["MIT"]
    with pytest.raises(LookupError):
        chosen("GPL-3.0-only")


def test_every_linked_crate_has_its_licence():
    licences = script("licences")
    try:
        linked = licences.linked(licences.metadata())
    except (LookupError, OSError) as error:
        pytest.skip(f"no metadata of crates: {error}")
    assert len(linked) > 50
    text = licences.copyright_file(linked)
    stanzas = [stanza for stanza in text.split("\n\n") if stanza.startswith("Files: crates.io/")]
    assert len(stanzas) == len(linked)
    assert all(re.search(r"^Copyright: .*[A-Za-z]{2}", stanza, re.M) for stanza in stanzas)
    used = {name for stanza in text.split("\n\n") for name in re.findall(r"^License: (.+)$", stanza, re.M)}
    used = {name for licence in used for name in re.split(" and | or ", licence)}
    explained = {stanza.split("\n")[0] for stanza in text.split("\n\n") if stanza.startswith("License: ")}
    assert {f"License: {name}" for name in used} == explained
