"""Which files of a crate use which: for scripts/check-crate-graph, which wants no circles.

File A uses file B if it names an item that B defines, in a `use` or by a path. Names are followed
through `use`, `pub use` and globs to where the item is defined, so a facade that only hands on what
its children define stands in nobody's way: neither `pub use child::Item` in the parent nor
`use super::Item` in a sibling says anything of the parent. What counts:

- Paths from `crate`, `self`, `super`, the names of child modules, and names that were imported.
- Not `mod child;`, which every parent has, nor a `pub use` of a name that the file makes no use of.
- Not code under `#[cfg(test)]`: tests may know everybody.
- Not methods: an `impl` of a type in another file than the type's uses the type, and who calls its
  methods names the type alone.

The sources are read as text, with comments and strings taken out. What a macro writes is not seen, nor
are files that `#[path]` names.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

# Comments, strings and character literals; a lifetime is none of them.
NOISE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(\#*)".*?"\1|b?c?"(?:\\.|[^"\\])*"|b?'(?:\\[^\n]+?|[^'\\\n])'""", re.DOTALL
)
TEST = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]\s*(?:#\[[^\]]*\]\s*)*")
VISIBLE = r"(?:pub(?:\s*\([^)]*\))?\s+)?"
MODULE = re.compile(rf"\b{VISIBLE}mod\s+(?P<name>\w+)\s*(?P<end>[;{{])")
USE = re.compile(r"(?P<visible>\bpub(?:\s*\([^)]*\))?\s+)?\buse\s+(?P<tree>[^;]+);")
ITEM = re.compile(
    r"\b(?:struct|enum|union|trait|type|fn|static(?:\s+mut)?|const(?!\s+(?:fn|unsafe|extern|async)\b))\s+(\w+)"
    r"|\bmacro_rules!\s*(\w+)"
)
PATH = re.compile(r"(?<![\w:.$])(?:\$?crate|\w+)(?:\s*::\s*\w+)+")
# What may be a use of a name: a type or a constant anywhere; a function or a module where it is called
# or begins a path, as fields and variables may have the same names.
WORD = re.compile(r"(?<![.\w])(?:[A-Z]\w*(?!\w)(?!\s*:(?!:))|[a-z_]\w*(?=\s*(?:\(|::|!)))")


@dataclass
class Module:
    """A module: what it defines, what it imports, and the paths that its code has."""

    path: tuple
    file: Path
    parent: "Module | None" = None
    children: dict = field(default_factory=dict)
    items: set = field(default_factory=set)
    #: Name in here: (path, whether it is handed on).
    imports: dict = field(default_factory=dict)
    globs: list = field(default_factory=list)
    paths: set = field(default_factory=set)
    words: set = field(default_factory=set)

    def modules(self):
        yield self
        for child in self.children.values():
            yield from child.modules()


def end_of_block(text, start):
    """Where the block ends that opens at `start`."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(text)


def clean(text):
    """The code alone: no comments, no content of strings, nothing that is only compiled for tests."""
    text = NOISE.sub(lambda m: " " if m[0].startswith("/") else '""', text)
    while match := TEST.search(text):
        semicolon, brace = (text.find(mark, match.end()) % (len(text) + 1) for mark in ";{")
        # A use, a declaration; or an item with a body.
        is_use = re.compile(rf"{VISIBLE}use\b").match(text, match.end())
        end = semicolon + 1 if is_use or semicolon < brace else end_of_block(text, brace)
        text = text[: match.start()] + text[end:]
    return text


def surface(code):
    """The code outside blocks; what macros and `extern` get in braces counts as outside."""
    out, done = "", 0
    for match in iter(lambda: re.compile(r"(!\s*\w*\s*|\bextern\b\s*(?:\"\"\s*)?)?\{").search(code, done), None):
        end = end_of_block(code, match.end() - 1)
        out += code[done : match.start()]
        if match[1] and not re.search(r"macro_rules!\s*\w+\s*$", code[done : match.end() - 1]):
            out += surface(code[match.end() : end - 1])
        elif match[1]:
            out += match[1]
        out += "{}"
        done = end
    return out + code[done:]


def leaves(tree):
    """The (path, name here or None) of a use tree; `*` ends the path of a glob."""
    tree = tree.strip().removeprefix("::")
    brace = tree.find("{")
    if brace < 0:
        path, _, name = (part.strip() for part in re.sub(r"\s+as\s+", "\0", tree).partition("\0"))
        path = tuple(part.strip() for part in path.split("::"))
        if path[-1] == "self" and len(path) > 1:
            path = path[:-1]
        yield path, name or path[-1]
        return
    prefix = tuple(part.strip() for part in tree[:brace].split("::") if part.strip())
    depth, start = 0, brace + 1
    inside = tree[: tree.rfind("}")]
    for place in range(brace + 1, len(inside) + 1):
        mark = inside[place] if place < len(inside) else ","
        depth += (mark == "{") - (mark == "}")
        if mark == "," and depth == 0:
            if part := inside[start:place].strip():
                for path, name in leaves(part):
                    if path == ("self",):
                        yield prefix, prefix[-1] if name == "self" else name
                    else:
                        yield (*prefix, *path), name
            start = place + 1


def read(file, path=(), parent=None):
    """The module that is a file, and those inside it and below it."""
    return parse(clean(file.read_text(encoding="utf-8")), file, path, parent)


def parse(text, file, path, parent):
    module = Module(path, file, parent)
    rest, done = "", 0
    for match in iter(lambda: MODULE.search(text, done), None):
        name = match["name"]
        rest += text[done : match.start()]
        if match["end"] == "{":
            done = end_of_block(text, match.end() - 1)
            inside = text[match.end() : done - 1]
            module.children[name] = parse(inside, file, (*path, name), module)
        else:
            done = match.end()
            folder = file.parent if file.name in ("lib.rs", "main.rs", "mod.rs") else file.with_suffix("")
            # Modules inside a file have a folder of their own.
            inner = path[len(path_of(module)) :]
            folder = folder.joinpath(*inner)
            for place in (folder / f"{name}.rs", folder / name / "mod.rs"):
                if place.exists():
                    module.children[name] = read(place, (*path, name), module)
    rest += text[done:]
    for match in USE.finditer(rest):
        for full, name in leaves(match["tree"]):
            if full[-1] == "*":
                module.globs.append(full[:-1])
            elif name == "_":
                # A trait for its methods.
                module.paths.add(full)
            else:
                module.imports[name] = (full, bool(match["visible"]))
    code = USE.sub(" ", rest)
    module.items = {a or b for a, b in ITEM.findall(surface(code))}
    module.paths |= {tuple(re.split(r"\s*::\s*", p.lstrip("$"))) for p in PATH.findall(code)}
    module.words = set(WORD.findall(code))
    return module


def path_of(module):
    """The path of the module that is the whole of a module's file."""
    while module.parent and module.parent.file == module.file:
        module = module.parent
    return module.path


def resolve(module, path, root, seen=frozenset()):
    """The module that defines what `path` names, seen from `module`, and its name; None if that is
    of another crate, or a module."""
    if (id(module), path) in seen:
        return None
    seen = seen | {(id(module), path)}
    here, rest = module, path
    if rest[0] == "crate":
        here, rest = root, rest[1:]
    while rest and rest[0] in ("self", "super"):
        here, rest = (here.parent if rest[0] == "super" else here), rest[1:]
        if here is None:
            return None
    while rest:
        name, rest = rest[0], rest[1:]
        if name in here.children:
            here = here.children[name]
        elif name in here.items:
            return here, name
        elif name in here.imports:
            return resolve(here, (*here.imports[name][0], *rest), root, seen)
        else:
            # What another crate has is none of these modules.
            own = {"crate", "self", "super", *here.children, *here.imports}
            for glob in (glob for glob in here.globs if glob[0] in own):
                if found := resolve(here, (*glob, name, *rest), root, seen):
                    return found
            return None
    return None


def module_at(module, path, root):
    """The module that a path names, if it names one."""
    here = module
    for name in path:
        if name == "crate":
            here = root
        elif name == "super":
            here = here.parent
        elif name != "self":
            if name in here.children:
                here = here.children[name]
            elif name in here.imports:
                here = module_at(here, here.imports[name][0], root)
            else:
                return None
        if here is None:
            return None
    return here


def uses(root):
    """{(file, file): the names by which the first uses the second}."""
    edges = {}
    for module in root.modules():
        wanted = set(module.paths)
        wanted |= {
            full
            for name, (full, is_handed_on) in module.imports.items()
            if not is_handed_on or name in module.words
        }
        for glob in module.globs:
            if target := module_at(module, glob, root):
                there = {*target.items, *target.imports} & module.words
                wanted |= {(*glob, name) for name in there - module.items}
        for path in wanted:
            found = resolve(module, path, root)
            if found and found[0].file != module.file:
                edges.setdefault((module.file, found[0].file), set()).add(found[1])
    return edges


def circles(edges):
    """Groups of files of which each uses, by way of others, every other one."""
    after = {}
    for start, end in edges:
        after.setdefault(start, set()).add(end)

    def reach(start):
        found, ahead = set(), [start]
        while ahead:
            for other in after.get(ahead.pop(), ()):
                if other not in found:
                    found.add(other)
                    ahead.append(other)
        return found

    reached = {file: reach(file) for file in after}
    groups = {
        frozenset(other for other in files if file in reached.get(other, ()))
        for file, files in reached.items()
        if file in files
    }
    return sorted(groups, key=sorted)
