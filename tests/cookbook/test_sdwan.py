"""Recipes for branches with several uplinks: measured paths, and rules that choose among them."""

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.masquerade import carries, stream
from lab.recipe import COOKBOOK, Cooked, recipe
from lab.routed import no_clear_route
from lab.traffic import Stream

WHY = f"--from {t.CLIENT4} --to {t.SERVER4} --in lan"
OFFICE = "198.51.100.10"


def taken(gateway, rule):
    """The paths that a rule's flows take."""
    rows = {row["rule"]: row["paths"] for row in gateway.daemon.json("steer")}
    return [path["name"] for path in rows[rule] if path["weight"]]


def measured(gateway):
    states = {path["state"] for path in gateway.daemon.json("path")["paths"]}
    return states == {"good"}


@recipe("dual-uplink", "culvert")
def test_dual_uplink(network, name):
    cooked = Cooked(network, name)
    net = cooked.net
    no_clear_route(net)
    net.lab.link(net.gwa.host, "wan2", net.mid, "west2")
    net.mid.ip("link", "set", "dev", "west2", "master", "br0")
    net.gwa.host.address("wan2", "198.51.100.1/24")
    net.gwb.host.address("wan", "198.51.100.2/24")
    cooked.follow()
    for gateway in net.gateways():
        wait_for("measured paths", lambda gateway=gateway: measured(gateway))
    cooked.settle()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    cooked.carry(net.client, net.server, t.SERVER4, "fibre")
    cooked.well(WHY)
    # The fibre is unplugged under a stream.
    running = Stream(net.client, net.server, t.SERVER4, rate=100)
    net.mid.ip("link", "set", "dev", "west", "nomaster")
    for gateway in net.gateways():
        wait_for("LTE", lambda gateway=gateway: taken(gateway, "voice") == taken(gateway, "rest") == ["lte"])
    cooked.reach((net.client, t.SERVER4))
    report = running.finish()
    assert report["back"]["longest_gap"] < 200, report


@recipe("cloud-breakout", "culvert")
def test_cloud_breakout(network, name):
    cooked = Cooked(network, name)
    net = cooked.net
    no_clear_route(net)
    # The provider's router, and the office beyond it, which the head office reaches as well.
    net.gwb.host.address("wan", "192.0.2.254/24")
    office = net.lab.host("office")
    net.lab.link(office, "eth0", net.gwb.host, "net")
    office.address("eth0", f"{OFFICE}/24")
    net.gwb.host.address("net", "198.51.100.1/24")
    office.route("default", "via", "198.51.100.1")
    for setting, value in [words[-1].split("=") for words in cooked.typed(net.gwa, "sysctl", "-w")]:
        net.gwa.host.sysctl(setting, value)
    copied = {words[1]: words[0] for words in cooked.typed(net.gwa, "cp")}
    for [file] in cooked.typed(net.gwa, "nft", "-f"):
        net.gwa.host.run("nft", "-f", COOKBOOK / name / copied[file])
    cooked.follow()
    wait_for("the rules", lambda: net.gwa.daemon.json("nat")["rules"][0])
    wait_for("measured paths", lambda: measured(net.gwa))
    cooked.settle()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    cooked.carry(net.client, net.server, t.SERVER4, "hq")
    cooked.well(WHY, answers="=> Linux gets it, as received by the same port")
    # The application, by the uplink and with its address.
    seen = Capture(office, "eth0", "udp port 7005")
    with carries(net, 300):
        stream(net, net.client, office, OFFICE, port=7005)
    assert {str(frame.src) for frame in seen.stop()} - {OFFICE} == {t.WAN_A4}
