"""What a bench depends on, as a digest; and the record of the digests on which benches passed.

A bench that passed once passes again as long as its module, the modules inside it, its tests and
their models stay as they are: nothing here depends on what lies outside hdl/.
"""

import hashlib
import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RTL = ROOT / "rtl"
TB = ROOT / "tb"
RECORD = TB / "passed.toml"

HEAD = """\
# On which sources lint and each bench passed. Written by `make -C hdl record`, after all of them
# passed; `make -C hdl changed` runs those whose sources are others.
"""
#: What may name another file: any word of SystemVerilog, an import of Python.
NAMES = {".sv": re.compile(r"\w+"), ".py": re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)}


@cache
def named(file):
    return set(NAMES[file.suffix].findall(file.read_text(encoding="utf-8")))


def closure(start, files):
    """The files that `start` names, and those that these name, and so on; `files` is all there are,
    by the word that names each."""
    found, ahead = {start}, [start]
    while ahead:
        for word in named(ahead.pop()):
            file = files.get(word)
            if file and file not in found:
                found.add(file)
                ahead.append(file)
    return found


def inputs(bench):
    """The files that a bench depends on."""
    modules = {file.stem: file for file in [*RTL.rglob("*.sv"), *TB.glob("*.sv")]}
    models = {file.stem: file for file in [*TB.glob("test_*.py"), *(TB / "lib").glob("*.py")]}
    files = closure(modules[bench.top], modules) | closure(models[bench.module], models)
    files |= {*(RTL / "include").iterdir(), RTL / "lint.vlt", ROOT / "requirements.txt"}
    if bench.whole:
        files.add(ROOT / "sim" / "model.vlt")
    return sorted(files)


def digest(bench):
    """Changes whenever a bench or something that it depends on does."""
    return digest_of(repr(bench), inputs(bench))


def lint_digest(tops):
    """Changes whenever something does that lint looks at, or looks with."""
    files = [*RTL.rglob("*.*"), *TB.glob("*.sv"), ROOT / "requirements.txt"]
    return digest_of(repr(tops), sorted(files))


def digest_of(text, files):
    state = hashlib.sha256(text.encode())
    for file in files:
        state.update(str(file.relative_to(ROOT)).encode())
        state.update(file.read_bytes())
    return state.hexdigest()[:16]


def recorded():
    """The digests of the record, by the bench's name."""
    return tomllib.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def record(benches, tops):
    """Writes the record anew."""
    lines = [f'lint = "{lint_digest(tops)}"\n']
    lines += [f'{bench.name} = "{digest(bench)}"\n' for bench in sorted(benches, key=lambda b: b.name)]
    RECORD.write_text(HEAD + "\n" + "".join(lines), encoding="utf-8")
