"""The recipe for containers, as compose.yaml says: by unshare and setpriv, which do what a runtime does before it starts the programs; and
by Podman, where it is installed, on this machine's root file system in place of an image."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from lab import topology as t
from lab.planes import culvert_binary
from lab.recipe import COOKBOOK, Cooked, recipe

COMPOSE = yaml.safe_load((COOKBOOK / "containers" / "compose.yaml").read_text())
POD = yaml.safe_load((COOKBOOK / "containers" / "pod.yaml").read_text())

#: Of /run a container has a folder of its own, in which /run/culvert is shared; /proc/sys can only be read.
APART = """\
set -e
mkdir -p "$1/net" "$1/culvert"
mount --bind /proc/sys/net "$1/net"
mount --bind /run/culvert "$1/culvert"
mount -t tmpfs tmpfs /run
mkdir /run/culvert
mount --bind "$1/culvert" /run/culvert
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
shift
exec "$@"
"""

#: The runtime takes no mixture of control groups: here it sees one kind.
ONE_KIND = """\
umount -R /sys/fs/cgroup 2>/dev/null
mount -t cgroup2 none /sys/fs/cgroup && exec "$@"
"""

#: Limits that this process may set, whatever its own are.
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
PODMAN = [
    "unshare", "--mount", "sh", "-c", ONE_KIND, "sh", "podman", "--runtime", "/usr/bin/crun", "run", "--rm", *LIMITS,
    "--network", "host", "--no-hosts", "--cgroups=disabled", "--cgroupns=host", "--cap-drop", "all",
    "--security-opt", "no-new-privileges", "--tmpfs", "/run:notmpcopyup", "--tmpfs", "/tmp:notmpcopyup",
]  # fmt: skip


def added(service):
    assert COMPOSE["services"][service]["cap_drop"] == ["ALL"]
    return COMPOSE["services"][service]["cap_add"]


def by_unshare(service, host):
    """What starts a program as a runtime starts it in a service."""
    limits = ",".join(["-all", *(f"+{name.lower()}" for name in added(service))])
    folder = host.lab.tmp / f"of-{service}"
    return ["unshare", "--mount", "sh", "-c", APART, "sh", folder, "setpriv", f"--bounding-set={limits}", "--inh-caps=-all", "--no-new-privs"]


def by_podman(service, host):
    """The same by a runtime. The machine's root file system stands for the image, and what is written there is gone afterwards."""
    name = f"{host.lab.run_id}-{service}"
    host.lab.at_close(lambda: subprocess.run([*PODMAN[: PODMAN.index("run")], "rm", "--force", name], capture_output=True, check=False))
    shared = ["/run/culvert", host.lab.tmp, culvert_binary().parent]
    volumes = [f"{path}:{path}" for path in shared]
    volumes += [f"{host.etc}/{file}:/etc/{file}" for file in ("swanctl", "strongswan.conf")]
    of_daemon = []
    if service == "culvert":
        [(key, value)] = COMPOSE["services"][service]["environment"].items()
        volumes.append(f"/proc/sys/net:{value}/net")
        # Podman 4.3's own profile forbids bpf(2), whatever capabilities there are.
        of_daemon = ["--security-opt", "seccomp=unconfined", "--device", "/dev/net/tun", "--env", f"{key}={value}", "--env", "NO_COLOR=1"]
    capabilities = [word for name in added(service) for word in ("--cap-add", name)]
    return [*PODMAN, "--name", name, *capabilities, *of_daemon, *(word for v in volumes for word in ("--volume", v)), "--rootfs", "/:O"]


def no_podman():
    """Why Podman runs nothing here; an empty text when it does."""
    if not (shutil.which("podman") and shutil.which("crun")):
        return "podman or crun is not installed"
    done = subprocess.run([*PODMAN, "--rootfs", "/:O", "true"], capture_output=True, text=True, timeout=60)
    return done.stderr.strip() if done.returncode else ""


def test_the_pod_has_what_the_services_have():
    for container in POD["spec"]["containers"]:
        service = COMPOSE["services"][container["name"]]
        assert container["securityContext"]["capabilities"] == {"drop": service["cap_drop"], "add": service["cap_add"]}
        assert container["args"] == service["command"]


def carried(network, name, contained):
    """A tunnel of two containers at gateway A. Returns the recipe."""
    cooked = Cooked(network, name)
    net = cooked.net
    # The volume of both.
    Path("/run/culvert").mkdir(mode=0o755, exist_ok=True)
    net.gwa.daemon.wrapper = contained("culvert", net.gwa.host)
    [key] = COMPOSE["services"]["culvert"]["environment"]
    net.gwa.daemon.environment = {key: str(net.gwa.host.lab.tmp / "of-culvert")}
    net.gwa.swan.wrap = [*contained("strongswan", net.gwa.host), *net.gwa.swan.wrap]
    for gateway in net.gateways():
        gateway.start()
    # By `docker compose exec` there.
    net.gwa.swan.initiate("net")
    cooked.settle()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4), (net.gwa.host, t.SERVER4))
    cooked.carry(net.client, net.server, t.SERVER4, "net")
    assert not net.gwa.daemon.warnings()
    return cooked


def comes_back(cooked):
    """The daemon starts anew; charon did not, and goes on."""
    net = cooked.net
    net.gwa.daemon.start()
    cooked.settle()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    cooked.carry(net.client, net.server, t.SERVER4, "net")
    cooked.well(f"--from {t.CLIENT4} --to {t.SERVER4}")


@recipe("containers", "culvert+libipsec")
def test_containers(network, name):
    cooked = carried(network, name, by_unshare)
    cooked.net.gwa.daemon.kill9()
    comes_back(cooked)


@recipe("containers", "culvert+libipsec")
def test_by_podman(network, name):
    if missing := no_podman():
        pytest.skip(f"podman: {missing}")
    cooked = carried(network, name, by_podman)
    assert cooked.net.gwa.daemon.stop() == 0
    comes_back(cooked)
