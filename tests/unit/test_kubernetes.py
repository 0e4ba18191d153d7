"""packaging/kubernetes against the unit of systemd and the container's recipe: the same program, with the same privileges."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"

#: What a container may write of the host, and where it lies in the container.
WRITTEN = {"run": ("/run/culvert", "/run/culvert"), "sys-net": ("/proc/sys/net", "/host/proc/sys/net")}


@pytest.fixture(name="objects")
def fixture_objects():
    """The manifest's objects by kind."""
    yaml = pytest.importorskip("yaml")
    objects = list(yaml.safe_load_all((PACKAGING / "kubernetes" / "culvert.yaml").read_text()))
    by_kind = {one["kind"]: one for one in objects}
    assert len(by_kind) == len(objects)
    return by_kind


@pytest.fixture(name="pod")
def fixture_pod(objects):
    return objects["DaemonSet"]["spec"]["template"]["spec"]


@pytest.fixture(name="container")
def fixture_container(pod):
    [container] = pod["containers"]
    return container


def test_objects_belong_together(objects, pod, container):
    assert set(objects) == {"Namespace", "ConfigMap", "DaemonSet"}
    namespace = objects["Namespace"]["metadata"]["name"]
    config, daemons = objects["ConfigMap"], objects["DaemonSet"]
    assert config["metadata"]["namespace"] == daemons["metadata"]["namespace"] == namespace
    assert objects["Namespace"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    # A DaemonSet is refused whose pods it would not find again.
    wanted = daemons["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= daemons["spec"]["template"]["metadata"]["labels"].items()
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert len(volumes) == len(pod["volumes"]) == len(mounts) == len(container["volumeMounts"])
    assert set(volumes) == set(mounts)
    assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]
    folder, _, file = container["args"][-1].rpartition("/")
    assert mounts["config"]["mountPath"] == folder and list(config["data"]) == [file]
    assert mounts["config"]["readOnly"] is True


def test_the_pod_has_what_the_unit_has_and_no_more(unit, pod, container):
    security = container["securityContext"]
    assert security["privileged"] is security["allowPrivilegeEscalation"] is False
    assert unit["NoNewPrivileges"] == "yes"
    assert security["capabilities"]["drop"] == ["ALL"]
    added = {f"CAP_{name}" for name in security["capabilities"]["add"]}
    assert added == set(unit["CapabilityBoundingSet"].split())
    assert security["readOnlyRootFilesystem"] and unit["ProtectSystem"] == "strict"
    assert security["seccompProfile"]["type"] == "RuntimeDefault"
    # The host's network, and nothing else of the host's.
    assert pod["hostNetwork"] is True
    assert not any(pod.get(key) for key in ("hostPID", "hostIPC", "shareProcessNamespace"))
    # It asks nothing of the cluster.
    assert pod["automountServiceAccountToken"] is False
    assert "initContainers" not in pod and "procMount" not in security
    assert f"{pod['terminationGracePeriodSeconds']}" == unit["TimeoutStopSec"]


def test_what_of_the_host_it_reaches(unit, pod, container):
    folders = {v["name"]: v["hostPath"] for v in pod["volumes"] if "hostPath" in v}
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    device, _ = unit["DeviceAllow"].split()
    reached = {name: (folder["path"], places[name]) for name, folder in folders.items()}
    assert reached == {**WRITTEN, "tun": (device, device)}
    assert folders["tun"]["type"] == "CharDevice"
    # No runtime lets anything be mounted below /proc, so the daemon is told another place.
    [variable] = container["env"]
    assert places["sys-net"] == f"{variable['value']}/net" and not places["sys-net"].startswith("/proc")
    assert f'"{variable["name"]}"' in (ROOT / "crates" / "mirror" / "src" / "setting.rs").read_text()


def test_it_runs_what_the_image_runs(container):
    recipe = (PACKAGING / "container" / "Containerfile").read_text()
    command = re.search(r"^CMD \[(.*)\]$", recipe, re.M)[1]
    assert container["args"] == [word.strip(' "') for word in command.split(",")]
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["exec"]["command"] == ["culvert", "status"]
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    assert container["image"] == f"culvert:{version}"


def test_its_configuration_is_one(objects):
    tomllib = pytest.importorskip("tomllib")
    config = tomllib.loads(objects["ConfigMap"]["data"]["culvert.toml"])
    # Probes ask the daemon of this name.
    assert config["name"] == "default" and config["port"]


def test_kubernetes_schemas_take_it(objects):
    """Schemas of a released Kubernetes, where the package that has them is installed."""
    validate = pytest.importorskip("kubernetes_validate")
    for one in objects.values():
        validate.validate(one, validate.latest_version(), strict=True)
