"""The documents: links that lead somewhere, commands that exist, pictures that are up to date."""

import importlib.machinery
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATES = ROOT / "crates"

#: Folders of build results, and of reports that stay as they were made.
ELSEWHERE = {"target", "build", "reports", ".git"}

#: What begins a command line that is looked at; other programs are not the project's.
PROGRAMS = {"make", "culvert", "culvert-bench", "cargo", ".ci/run"}
SCRIPTS = r"(scripts|bench|tests|demo)/\w"

#: Languages of the blocks that hold commands.
SHELL = {"sh", "console", ""}

#: Words that end a command line.
ENDS = {"#", "&", "&&", "|", ";", ">"}


def documents():
    """The documents. Other jobs make and remove files of `build` meanwhile, so what is elsewhere is not walked into."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(set(folders) - ELSEWHERE)
        found += [Path(folder) / file for file in files if file.endswith(".md")]
    return sorted(found)


def name(path):
    return str(path.relative_to(ROOT))


# Links


def headings(text):
    """The anchors of a document's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    found = []
    for heading in re.findall(r"^#+ +(.+)$", text, re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        twins = found.count(anchor)
        found.append(f"{anchor}-{twins}" if twins else anchor)
    return found


def broken_links(path, text):
    """What is wrong with the relative links of a document."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*\]\([^`\n]*`", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists():
            yield f"{target}: no such file"
        elif anchor and there.suffix == ".md" and anchor not in headings(there.read_text()):
            yield f"{target}: no such heading"


def test_a_broken_link_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One `two`: three\n\n## Again\n\n## Again\n\n```\n# no heading\n```\n")
    assert headings(page.read_text()) == ["one-two-three", "again", "again-1"]
    good = "[a](page.md#again-1) [b](#one-two-three) [c](https://x.org/#y) `[d](none)`"
    assert list(broken_links(page, good)) == []
    bad = "[a](none.md) [b](page.md#no-heading) [`c`](#again-2)"
    assert len(list(broken_links(page, bad))) == 3


@pytest.mark.parametrize("path", documents(), ids=name)
def test_every_link_leads_somewhere(path):
    assert list(broken_links(path, path.read_text())) == []


# Commands


def spans(text):
    """The code in a document's prose, but for the text of links."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    prose = re.sub(r"\[[^]]*\]\(", "", prose)
    return [span for part in prose.split("\n\n") for span in re.findall(r"`([^`]+)`", part)]


def commands(text):
    """The command lines in a document's code, as lists of words."""
    blocks = re.findall(r"^```(.*?)\n(.*?)^```$", text, re.M | re.S)
    shell = [block.replace("\\\n", " ") for language, block in blocks if language in SHELL]
    lines = [line for block in shell for line in block.splitlines()]
    # Two blanks part a command from what a block says about it.
    lines = [re.split(r"\s{2,}", line.removeprefix("$ "))[0] for line in lines]
    for line in lines + spans(text):
        for command in re.split(r" && | \| ", line):
            words = split(command)
            until = next((i for i, word in enumerate(words) if word in ENDS), len(words))
            if words and (words[0] in PROGRAMS or re.match(SCRIPTS, words[0])):
                yield words[:until]


def split(command):
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


@cache
def make_targets(folder):
    database = subprocess.run(
        ["make", "-pRrq", "-C", folder, "PYTHON=true", ":"], capture_output=True, text=True
    ).stdout
    database = re.sub(r"^# Not a target:\n.*$", "", database, flags=re.M)
    return set(re.findall(r"^([a-z][a-z-]*):", database, re.M))


def kebab(camel):
    return re.sub(r"(?<!^)([A-Z])", r"-\1", camel).lower()


@cache
def subcommands():
    """The commands of the binary, those below each, and all its long options: from the source."""
    folder = CRATES / "culvert" / "src"
    variants, options = command_line([folder / "cli.rs", *sorted((folder / "cli").glob("*.rs"))])
    return variants("Command"), {"guard": variants("GuardCommand")}, options


@cache
def benchmarks():
    """The commands of culvert-bench, and all its long options: from the source."""
    variants, options = command_line([CRATES / "bench/src/program/cli.rs"])
    return variants("BenchCommand"), {}, options


def command_line(files):
    """What gives the variants of an enum of these files, and the long options in them."""
    source = "".join(file.read_text() for file in files)

    def variants(enum):
        (body,) = re.findall(rf"pub enum {enum} {{\n(.*?)^}}", source, re.M | re.S)
        return {kebab(word) for word in re.findall(r"^    ([A-Z]\w*)", body, re.M)}

    fields = re.findall(r"#\[arg\(long\b.*?\)\]\n    pub (\w+):", source, re.S)
    options = {"--" + field.replace("_", "-") for field in fields} | {"--help", "--version"}
    options |= {"--" + name for name in re.findall(r'#\[arg\(long = "([a-z-]+)"', source)}
    return variants, options


@cache
def packages():
    return {
        re.search(r'^name = "(.+)"', manifest.read_text(), re.M).group(1)
        for manifest in CRATES.glob("**/Cargo.toml")
        if "target" not in manifest.parts
    }


def unknown(words):
    """What of a command line does not exist, or None."""
    program, *words = words
    if program == "make":
        folder = ROOT
        if words[:1] == ["-C"]:
            folder, words = ROOT / words[1], words[2:]
        targets = [word for word in words if re.fullmatch(r"[a-z-]+", word)]
        return next((t for t in targets if t not in make_targets(folder)), None)
    if program in ("culvert", "culvert-bench"):
        known, below, options = subcommands() if program == "culvert" else benchmarks()
        words = words[: words.index("--")] if "--" in words else words
        names = [word for word in words if re.fullmatch(r"[a-z][a-z-]*", word)]
        if names and names[0] not in known:
            return names[0]
        if len(names) > 1 and names[0] in below and names[1] not in below[names[0]]:
            return names[1]
        return next(
            (w for w in words if w.startswith("--") and w.split("=")[0] not in options), None
        )
    if program == "cargo":
        named = [b for a, b in zip(words, words[1:]) if a in ("-p", "--package")]
        return next((package for package in named if package not in packages()), None)
    if program == ".ci/run":
        listed = subprocess.run(
            [ROOT / ".ci/run", "--list"], capture_output=True, text=True, check=True
        ).stdout.split()
        return next((job for job in words if job[0].islower() and job not in listed), None)
    return None if list(ROOT.glob(program)) else program


@pytest.mark.parametrize(
    "line",
    [
        "make no-such-target",
        "make bench nothing QUICK=1",
        "make -C hdl nothing",
        "culvert nothing",
        "culvert-bench nothing",
        "culvert-bench esp --no-such-option 1",
        "cargo test -p culvert-nothing",
        ".ci/run nothing",
        "scripts/nothing --check",
    ],
)
def test_an_unknown_command_is_seen(line):
    (words,) = commands(f"Text `{line}` text.")
    assert unknown(words)
    (words,) = commands(f"```sh\n{line}   # says why\n```\n")
    assert unknown(words)


def test_a_known_command_is_known():
    text = """
`make scenarios ONLY=nat`, `culvert-bench esp --cpu 1 --size 64`, `culvert exec -- ip --nothing`
```sh
make kernel && make -C hdl lint       # two
culvert run --config culvert.toml &   # a daemon
cargo test -p culvert-esp
```
"""
    found = list(commands(text))
    assert len(found) == 7
    assert [unknown(words) for words in found] == [None] * 7


@pytest.mark.parametrize("path", documents(), ids=name)
def test_every_command_exists(path):
    wrong = [(words, why) for words in commands(path.read_text()) if (why := unknown(words))]
    assert wrong == []


# Files that code names


def files(text):
    """Paths of source files in a document's code: with a folder, and without a placeholder."""
    return [s for s in spans(text) if re.fullmatch(r"[\w.-]+(/[\w.-]+)+\.(rs|c|h|py|sh|sv|dot)", s)]


def missing(path, files):
    """Those that are neither among the crates, nor below a folder that the document is in."""
    roots = [CRATES, *(folder for folder in path.parents if folder.is_relative_to(ROOT))]
    return [f for f in files if not any((root / f).exists() for root in roots)]


def test_a_missing_file_is_seen():
    text = "`esp/src/seal.rs`, `crates/esp/src/none.rs`, `none.rs`, `a/NAME.md`"
    assert missing(ROOT / "README.md", files(text)) == ["crates/esp/src/none.rs"]


@pytest.mark.parametrize("path", documents(), ids=name)
def test_every_file_exists(path):
    assert missing(path, files(path.read_text())) == []


# The first page


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_the_contents_page_has_every_document():
    contents = (ROOT / "docs/README.md").read_text()
    pages = [f"{page.parent.name}/{page.name}" for page in (ROOT / "docs").glob("*/*.md")]
    assert len(pages) > 20
    assert not [page for page in pages if f"({page})" not in contents]


# Scenarios that the table of features names


def test_scenarios_of_the_feature_table_exist():
    table = (ROOT / "docs/reference/features.md").read_text()
    shown = [row.rsplit("|", 2)[1] for row in table.splitlines() if row.startswith("| ")][2:]
    names = [n for cell in shown for n in re.findall(r"`([a-z0-9-]+)`", cell)]
    assert len(names) > 30
    folders = {folder.name for folder in (ROOT / "tests" / "scenarios").iterdir()}
    assert sorted(set(names) - folders) == []


# Pictures


@pytest.fixture
def pictures():
    if not shutil.which("dot"):
        pytest.skip("Graphviz is missing")
    loader = importlib.machinery.SourceFileLoader("pictures", str(ROOT / "scripts" / "pictures"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("pictures", loader))
    loader.exec_module(module)
    return module


def test_pictures_are_what_their_sources_give(pictures):
    assert list(pictures.PICTURES.glob("*.dot"))
    assert pictures.faults(pictures.PICTURES) == []


def test_an_old_picture_is_seen(pictures, tmp_path):
    for file in pictures.PICTURES.iterdir():
        shutil.copy(file, tmp_path)
    source = tmp_path / "packet.dot"
    source.write_text(source.read_text().replace('label="out"', 'label="exit"'))
    (tmp_path / "threads.dot").unlink()
    (tmp_path / "new.dot").write_text("digraph new { a -> b }\n")
    (tmp_path / "screen.svg").write_text("<svg></svg>")
    faults = pictures.faults(tmp_path)
    assert [fault.split()[0] for fault in faults] == ["new.svg", "packet.svg", "threads.svg:"]


def test_pictures_have_both_modes_and_are_small(pictures):
    for source in pictures.PICTURES.glob("*.dot"):
        text = source.with_suffix(".svg").read_text()
        assert "prefers-color-scheme: dark" in text
        assert not re.search(r'(fill|stroke)="', text)
        assert len(text) < pictures.MOST_BYTES


# Tests that documents name


def source_of(named):
    """The file that `crate/file.rs` stands for, of a crate's tests or of its source."""
    crate, rest = named.split("/", 1)
    if rest.startswith("src/"):
        return CRATES / crate / rest
    in_one_program = CRATES / crate / "tests/all" / rest
    return in_one_program if in_one_program.exists() else CRATES / crate / "tests" / rest


def test_named_tests_exist():
    path = ROOT / "docs/reference/rfc-requirements.md"
    named = re.findall(r"`([\w/-]+\.rs): (\w+)`", path.read_text())
    assert len(named) > 50
    wrong = [
        f"{file}: {function}"
        for file, function in named
        if not source_of(file).exists()
        or not re.search(rf"\bfn {function}\b", source_of(file).read_text())
    ]
    assert not wrong, "\n".join(wrong)


def test_named_scenarios_exist():
    text = (ROOT / "docs/reference/rfc-requirements.md").read_text()
    named = set(re.findall(r"scenarios? `([\w-]+)`", text))
    assert named
    assert not [name for name in named if not (ROOT / "tests/scenarios" / name).is_dir()]


# Messages that documents explain


def test_messages_are_what_the_sources_say():
    """Those of culvert itself, and the drop reasons; the others are strongSwan's and Linux's."""
    text = (ROOT / "docs/reference/messages.md").read_text()
    ours = "".join(re.findall(r"^## (?:Commands|The daemon)\b(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL))
    quoted = re.findall(r"^\| `([^`]+)`", ours, re.MULTILINE)
    quoted += re.findall(r"`((?:in|out|no|hold|neighbour)-[a-z-]+)`", text)
    assert len(quoted) > 20
    sources = "".join(path.read_text() for path in CRATES.rglob("*.rs"))
    # A text that is broken over lines.
    sources = re.sub(r"\\\n\s*", "", sources)
    assert not [message for message in quoted if message not in sources]
