"""packaging/container against the unit of systemd: the same program, with the same privileges."""

import json
import re
from pathlib import Path

import pytest

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


@pytest.fixture(name="service")
def fixture_service():
    """What compose.yaml says."""
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((PACKAGING / "container" / "compose.yaml").read_text())["services"]["culvert"]


def test_the_container_has_what_the_unit_has_and_no_more(unit, service):
    assert service["cap_drop"] == ["ALL"] and "privileged" not in service
    assert {f"CAP_{name}" for name in service["cap_add"]} == set(unit["CapabilityBoundingSet"].split())
    device, rights = unit["DeviceAllow"].split()
    assert unit["DevicePolicy"] == "closed" and service["devices"] == [f"{device}:{device}:{rights}"]
    assert unit["NoNewPrivileges"] == "yes" and "no-new-privileges:true" in service["security_opt"]
    assert (unit["LimitMEMLOCK"], service["ulimits"]["memlock"]) == ("infinity", -1)
    assert int(unit["LimitCORE"]) == service["ulimits"]["core"] == 0
    assert service["restart"] == unit["Restart"] == "always"
    assert service["stop_grace_period"] == f"{unit['TimeoutStopSec']}s"
    # Nothing but its state can be written, as with ProtectSystem=strict.
    assert unit["ProtectSystem"] == "strict" and service["read_only"]
    state, configuration = (f"/run/{unit['RuntimeDirectory'].split()[0]}", f"/etc/{unit['ConfigurationDirectory']}")
    assert service["volumes"] == [f"{state}:{state}", f"{configuration}:{configuration}:ro"]


def test_it_runs_what_the_unit_runs(unit, service):
    recipe = (PACKAGING / "container" / "Containerfile").read_text()
    [entry, command] = [json.loads(found) for found in re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", recipe, re.M)]
    runs = unit["ExecStart"].replace("@BINDIR@", "/usr/bin").split()
    assert entry + command == entry + service["command"] == runs
    # What the package needs comes with it.
    depends = re.search(r"^Depends: (.*)$", (PACKAGING / "debian" / "control").read_text(), re.M)[1]
    assert "nftables" in depends and "culvert_*.deb" in recipe
