"""scripts/file_graph.py: circles of files in crates that are made up here."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def load(name, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(SCRIPTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    monkeypatch.setitem(sys.modules, loader.name, module)
    loader.exec_module(module)
    return module


@pytest.fixture(name="graph")
def fixture_graph(monkeypatch):
    return load("file_graph.py", monkeypatch)


@pytest.fixture(name="uses")
def fixture_uses(tmp_path, graph):
    """Who uses what in a crate of these files: {"a.rs b.rs": ["Name"]}; and its circles."""

    def uses(files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        edges = graph.uses(graph.read(tmp_path / "lib.rs"))
        circles = [sorted(str(f.relative_to(tmp_path)) for f in c) for c in graph.circles(edges)]
        named = {
            f"{a.relative_to(tmp_path)} {b.relative_to(tmp_path)}": sorted(names)
            for (a, b), names in edges.items()
        }
        return named, circles

    return uses


def test_two_files_that_use_each_other_are_a_circle(uses):
    edges, circles = uses({
        "lib.rs": "mod a;\nmod b;\nmod c;\n",
        "a.rs": "use crate::b::B;\npub struct A(B);\n",
        "b.rs": "pub struct B;\nimpl B { fn f(_: &crate::a::A) {} }\n",
        "c.rs": "use crate::a::A;\nuse crate::b::B;\n",
    })  # fmt: skip
    assert edges["a.rs b.rs"] == ["B"] and edges["b.rs a.rs"] == ["A"]
    assert circles == [["a.rs", "b.rs"]]


def test_a_circle_of_three_in_folders_is_one(uses):
    _, circles = uses({
        "lib.rs": "mod x;\npub mod y;\n",
        "x/mod.rs": "pub mod one;\nmod two;\n",
        "x/one.rs": "use super::two::Two;\npub struct One(Two);\n",
        "x/two.rs": "use crate::y;\npub struct Two(y::Y);\n",
        "y.rs": "pub struct Y;\nfn f() { let _ = crate::x::one::One::new(); }\n",
    })  # fmt: skip
    assert circles == [["x/one.rs", "x/two.rs", "y.rs"]]


def test_a_facade_is_in_nobodys_way(uses):
    edges, circles = uses({
        "lib.rs": "mod a;\nmod b;\npub use a::A;\npub use b::*;\n",
        "a.rs": "pub struct A;\n",
        "b.rs": "use crate::A;\npub struct B(A);\n",
    })  # fmt: skip
    assert edges == {"b.rs a.rs": ["A"]} and circles == []


def test_a_parent_that_works_with_its_children_must_not_be_used_by_them(uses):
    parent = "mod child;\nuse child::Child;\npub struct Parent(Child);\n"
    _, circles = uses({"lib.rs": parent, "child.rs": "pub struct Child;\n"})
    assert circles == []
    _, circles = uses({"child.rs": "pub struct Child;\nfn f(_: &super::Parent) {}\n"})
    assert circles == [["child.rs", "lib.rs"]]


def test_a_name_that_is_handed_on_and_used_counts(uses):
    edges, _ = uses({
        "lib.rs": "mod a;\npub use a::{A, Other as O};\nfn f(_: O) {}\n",
        "a.rs": "pub struct A;\npub struct Other;\n",
    })  # fmt: skip
    assert edges == {"lib.rs a.rs": ["Other"]}


def test_a_field_of_the_same_name_is_no_use(uses):
    edges, _ = uses({
        "lib.rs": "mod a;\npub use a::{A, providers};\nstruct S { providers: u8 }\nfn f(s: S) -> u8 { s.providers }\n",
        "a.rs": "pub struct A;\npub fn providers() {}\n",
    })  # fmt: skip
    assert edges == {}
    edges, _ = uses({"lib.rs": "mod a;\npub use a::{A, providers};\nfn f() { providers(); }\n"})
    assert edges == {"lib.rs a.rs": ["providers"]}


def test_globs_and_nested_trees_are_followed_by_name(uses):
    edges, _ = uses({
        "lib.rs": "mod a;\nmod b;\nmod c;\n",
        "a.rs": "pub struct A;\npub struct Unused;\npub const LEN: usize = 1;\n",
        "b.rs": "use crate::{a::{self, A as Renamed}, c::*};\nfn f(_: Renamed) -> usize { a::LEN + g() }\n",
        "c.rs": "pub fn g() -> usize { 0 }\nfn h() {}\n",
    })  # fmt: skip
    assert edges == {"b.rs a.rs": ["A", "LEN"], "b.rs c.rs": ["g"]}


def test_tests_comments_strings_and_methods_do_not_count(uses):
    edges, _ = uses({
        "lib.rs": "mod a;\nmod b;\n#[cfg(test)]\nmod testing;\n",
        "a.rs": "// crate::b::B\n/* use crate::b::B; */\npub struct A;\nimpl A { pub fn new() {} }\n"
        'const TEXT: &str = "crate::b::B"; const MARK: char = \'"\';\n'
        "fn f<'a>(_: &'a u8) {}\n"
        "#[cfg(test)]\nuse crate::b::B;\n"
        "#[cfg(test)]\nmod tests {\n    use super::*;\n    fn t(_: crate::b::B) { {} }\n}\n",
        "b.rs": "pub struct B;\nfn new() {}\nfn g() { new(); }\n",
        "testing.rs": "use crate::a::A;\n",
    })  # fmt: skip
    assert edges == {}


def test_what_macros_define_counts(uses):
    edges, _ = uses({
        "lib.rs": "#[macro_use]\nmod m;\nmod a;\nmod b;\n",
        "m.rs": "macro_rules! newtype { ($n:ident) => { pub struct $n; } }\n",
        "a.rs": "newtype! { pub struct Spi(u32); }\n",
        "b.rs": "fn f(_: crate::a::Spi) {}\n",
    })  # fmt: skip
    assert edges == {"b.rs a.rs": ["Spi"]}


def test_the_check_names_the_circle_and_what_is_used(tmp_path, monkeypatch):
    check = load("check-crate-graph", monkeypatch)
    source = tmp_path / "src"
    (source / "pair").mkdir(parents=True)
    (source / "lib.rs").write_text("mod pair;\n")
    (source / "pair/mod.rs").write_text("mod a;\nmod b;\n")
    (source / "pair/a.rs").write_text("use super::b::B;\npub struct A(B);\n")
    (source / "pair/b.rs").write_text("use super::a::A;\npub struct B(A);\n")
    count, problems, _ = check.file_problems("made-up", source)
    assert count == 4
    assert problems == [
        "made-up: files use one another in a circle:",
        "  pair/a.rs uses B of pair/b.rs",
        "  pair/b.rs uses A of pair/a.rs",
    ]
    monkeypatch.setitem(check.TOGETHER, ("made-up", "pair"), "a pair")
    assert check.file_problems("made-up", source) == (4, [], [])
    (source / "pair/b.rs").write_text("pub struct B;\n")
    _, problems, needless = check.file_problems("made-up", source)
    assert problems == [] and "take it out" in needless[0]
