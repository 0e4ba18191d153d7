"""The release profile: the path of packets is optimised, and whatever builds the release builds the same."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKSPACE = tomllib.loads((ROOT / "Cargo.toml").read_text())
MANIFESTS = {
    manifest["package"]["name"]: manifest
    for member in WORKSPACE["workspace"]["members"]
    for manifest in [tomllib.loads((ROOT / member / "Cargo.toml").read_text())]
}
#: What packets go through beside the data path itself; the daemon gives it these.
BESIDE = ("culvert-ipsec-mb", "culvert-engine-openssl", "culvert-engine-gm", "culvert-memif", "culvert-nic")


def uses(name):
    """The crates of the workspace that one needs to be built."""
    shared = WORKSPACE["workspace"]["dependencies"]
    for key in MANIFESTS[name].get("dependencies", {}):
        entry = shared.get(key, {})
        package = entry.get("package", key) if isinstance(entry, dict) else key
        if package in MANIFESTS:
            yield package


def below(name):
    return {name}.union(*(below(other) for other in uses(name)))


def test_every_crate_on_the_path_is_optimised():
    path = set().union(*(below(name) for name in ("culvert-dataplane", *BESIDE)))
    assert len(path) > 15
    profile = WORKSPACE["profile"]["release"]["package"]
    assert sorted(name for name in path if profile.get(name, {}).get("opt-level") != 3) == []


def test_profiles_name_crates_that_there_are():
    locked = {p["name"] for p in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    for name in ("release", "dev"):
        assert set(WORKSPACE["profile"][name]["package"]) <= locked


def test_jobs_test_the_release_that_make_builds():
    gate = (ROOT / ".ci/run").read_text()
    # Another setting in the environment would build every crate a second time; single commands have theirs.
    assert re.findall(r"^\s*export .*CARGO_PROFILE_RELEASE\w*", gate, re.M) == []
    together = "-p culvert -p culvert-preload"
    assert f"PROGRAMS = {together}\n" in (ROOT / "Makefile").read_text()
    assert f"cargo build --locked --release {together} -p culvert-bench" in gate
    measured = (ROOT / "scripts/instructions").read_text()
    packages = re.search(r"^PACKAGES = \((.*)\)", measured, re.M).group(1)
    assert packages.replace('"', "").replace(",", "") == f"{together} -p culvert-bench"
