"""packaging/apparmor/culvert: AppArmor's parser takes it, and it says what the unit of systemd says."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


@pytest.fixture(name="profile")
def fixture_profile():
    text = (PACKAGING / "apparmor" / "culvert").read_text().replace("@BINDIR@", "/usr/bin")
    return re.sub(r"^\s*#.*\n", "", text, flags=re.M)


def parse(path):
    parser = shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin")
    if not parser or not Path("/etc/apparmor.d/abstractions/base").exists():
        pytest.skip("apparmor is missing (apt-get install apparmor)")
    command = [parser, "--skip-kernel-load", "--skip-cache", "--names", "--base", "/etc/apparmor.d", path]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_parser_takes_it(profile, tmp_path):
    path = tmp_path / "culvert"
    path.write_text(profile)
    done = parse(path)
    assert (done.returncode, done.stdout.split()) == (0, ["culvert"]), done.stderr
    path.write_text(profile.replace("capability bpf", "capability nothing"))
    assert parse(path).returncode != 0


def test_it_says_what_the_unit_says(profile, unit):
    assert unit["AppArmorProfile"].removeprefix("-") == re.search(r"^profile (\S+) ", profile, re.M)[1]
    capabilities = {f"CAP_{name.upper()}" for name in re.findall(r"^\s*capability (\w+),", profile, re.M)}
    assert capabilities == set(unit["CapabilityBoundingSet"].split())
    families = {f"AF_{name.upper()}" for name in re.findall(r"^\s*network (\w+),", profile, re.M)}
    assert families == set(unit["RestrictAddressFamilies"].split())
    device, rights = unit["DeviceAllow"].split()
    assert f"{device} {rights}," in profile
    state, reading = unit["RuntimeDirectory"].split()
    assert f"@{{run}}/{state}/{{,**}} rwk," in profile and f"@{{run}}/{reading}/{{,*}} rw," in profile
    assert f"/etc/{unit['ConfigurationDirectory']}/{{,**}} r," in profile


def test_whatever_has_no_profile_of_its_own_is_not_in_it(profile):
    # By name alone: a path would take in `culvert exec`, and what it starts.
    assert re.findall(r"^profile .*$", profile, re.M) == ["profile culvert flags=(complain, attach_disconnected) {"]
