"""hdl/tb/inputs.py: what a bench depends on decides whether CI runs it."""

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

TB = Path(__file__).resolve().parents[2] / "hdl" / "tb"


@dataclass(frozen=True)
class Bench:
    name: str
    top: str
    module: str
    parameters: dict = field(default_factory=dict)
    whole: bool = False


FILES = {
    "rtl/common/cv_top.sv": "module cv_top; import cv_pkg::*; cv_part i_part (); endmodule",
    "rtl/common/cv_part.sv": "module cv_part; endmodule",
    "rtl/common/cv_other.sv": "module cv_other; endmodule",
    "rtl/common/cv_pkg.sv": "package cv_pkg; endpackage",
    "rtl/include/assert.svh": "",
    "rtl/lint.vlt": "",
    "sim/model.vlt": "",
    "requirements.txt": "",
    "tb/test_top.py": '"""Not like the bench of other."""\nfrom model import answer\n',
    "tb/test_other.py": "import model\n",
    "tb/lib/model.py": "import numbers\n",
    "tb/lib/other.py": "",
}
BENCH = Bench("top_1", "cv_top", "test_top")


@pytest.fixture(name="tree")
def fixture_tree(tmp_path, monkeypatch):
    """The module, with a tree of its own, and how to change a file of that."""
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    spec = importlib.util.spec_from_file_location("hdl_inputs", TB / "inputs.py")
    inputs = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "hdl_inputs", inputs)
    spec.loader.exec_module(inputs)
    inputs.ROOT, inputs.RTL, inputs.TB = tmp_path, tmp_path / "rtl", tmp_path / "tb"
    inputs.RECORD = inputs.TB / "passed.toml"

    def change(name):
        (tmp_path / name).write_text(FILES[name] + "\n")
        inputs.named.cache_clear()

    return inputs, change


@pytest.mark.parametrize("name", [
    "rtl/common/cv_top.sv", "rtl/common/cv_part.sv", "rtl/common/cv_pkg.sv", "rtl/lint.vlt",
    "rtl/include/assert.svh", "requirements.txt", "tb/test_top.py", "tb/lib/model.py",
])  # fmt: skip
def test_what_a_bench_depends_on_changes_its_digest(tree, name):
    inputs, change = tree
    before = inputs.digest(BENCH)
    change(name)
    assert inputs.digest(BENCH) != before


@pytest.mark.parametrize("name", [
    "rtl/common/cv_other.sv", "tb/test_other.py", "tb/lib/other.py", "sim/model.vlt",
])  # fmt: skip
def test_what_it_does_not_depend_on_leaves_it(tree, name):
    inputs, change = tree
    before = inputs.digest(BENCH)
    change(name)
    assert inputs.digest(BENCH) == before


def test_parameters_and_a_wholes_flags_count(tree):
    inputs, change = tree
    assert inputs.digest(Bench("top_1", "cv_top", "test_top", {"N": 2})) != inputs.digest(BENCH)
    whole = Bench("top_1", "cv_top", "test_top", whole=True)
    before = inputs.digest(whole)
    change("sim/model.vlt")
    assert inputs.digest(whole) != before


def test_what_is_recorded_is_read(tree):
    inputs, change = tree
    assert inputs.recorded() == {}
    inputs.record([BENCH], ["cv_top"])
    assert inputs.recorded() == {
        "lint": inputs.lint_digest(["cv_top"]), "top_1": inputs.digest(BENCH)
    }  # fmt: skip
    change("rtl/common/cv_part.sv")
    assert inputs.recorded()["top_1"] != inputs.digest(BENCH)


@pytest.mark.parametrize("name", ["rtl/common/cv_other.sv", "rtl/lint.vlt", "requirements.txt"])
def test_lint_looks_at_every_module(tree, name):
    inputs, change = tree
    before = inputs.lint_digest(["cv_top"])
    change(name)
    assert inputs.lint_digest(["cv_top"]) != before
    assert inputs.lint_digest(["cv_top", "cv_part"]) != inputs.lint_digest(["cv_top"])
