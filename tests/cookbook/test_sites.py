"""Recipes for two sites whose policies say what is protected."""

from pathlib import Path

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, kinds
from lab.masquerade import carries, stream
from lab.recipe import COOKBOOK, Cooked, certificates, recipe, rekey

WHY = f"--from {t.CLIENT4} --to {t.SERVER4}"


def suites(gateway):
    """What `culvert sa` shows in the column SUITE."""
    return {sa["suite"] for sa in gateway.daemon.json("sa")}


@recipe("site-to-site", "culvert+libipsec", "culvert")
def test_site_to_site(network, name):
    cooked = Cooked(network, name)
    net = cooked.follow()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4), (net.client, t.SERVER6), (net.server, t.CLIENT6))
    cooked.carry(net.client, net.server, t.SERVER4, "net")
    cooked.well(WHY)


@recipe("post-quantum", "culvert6")
def test_post_quantum(network, name):
    cooked = Cooked(network, name)
    net = cooked.follow()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4), (net.client, t.SERVER6), (net.server, t.CLIENT6))
    assert "CURVE_25519/KE1_ML_KEM_768" in net.gwa.swan.swanctl("--list-sas").stdout
    cooked.carry(net.client, net.server, t.SERVER4, "net")
    # The child's own keys, since it was rekeyed.
    child = net.gwa.swan.children("net")[-1]
    assert [child[key] for key in ("dh-group", "ake1")] == ["CURVE_25519", "ML_KEM_768"], child
    cooked.well(WHY)


@recipe("many-cores", "culvert+libipsec", "culvert")
def test_many_cores(network, name):
    cooked = Cooked(network, name)
    net = cooked.follow()
    tasks = Path(f"/proc/{net.gwa.daemon.process.pid}/task").iterdir()
    assert {"culvert-work0", "culvert-crypto0"} <= {(task / "comm").read_text().strip() for task in tasks}
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4), (net.client, t.SERVER6), (net.server, t.CLIENT6))
    cooked.carry(net.client, net.server, t.SERVER4, "net")
    cooked.well(WHY)


@recipe("behind-nat", "culvert+libipsec")
def test_behind_nat(network, name):
    cooked = Cooked(network, name, "nat")
    net = cooked.follow()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    cooked.carry(net.client, net.server, t.SERVER4, "net")
    # The NAT was noticed, not only survived.
    assert net.gwa.swan.sas()[0][1]["nat-local"] == "yes"
    assert "esp" not in kinds(cooked.wire.frames())
    cooked.well(WHY)


@recipe("masquerade", "culvert+libipsec")
def test_masquerade(network, name):
    cooked = Cooked(network, name)
    net = cooked.follow()
    copied = {words[1]: words[0] for words in cooked.typed(net.gwa, "cp")}
    for [file] in cooked.typed(net.gwa, "nft", "-f"):
        net.gwa.host.run("nft", "-f", COOKBOOK / name / copied[file])
    wait_for("the rules", lambda: net.gwa.daemon.json("nat")["rules"][0])
    # The office as it is, and guests behind one of its addresses.
    guest = "192.168.7.10"
    net.client.address("eth0", f"{guest}/24")
    inside = Capture(net.server, "eth0")
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    cooked.carry(net.client, net.server, t.SERVER4, "net")
    net.client.ip("route", "add", f"{t.SERVER4}/32", "via", "192.168.7.1", "src", guest)
    with carries(net, 300):
        stream(net, net.client, net.server, t.SERVER4, port=7001)
    seen = {str(f.src) for f in inside.stop() if f.protocol == 17 and str(f.dst) == t.SERVER4}
    assert seen == {t.CLIENT4, t.LAN_A4}, seen
    cooked.well(WHY, answers="=> Linux gets it, whose NAT has to see it first; policy is asked when it comes back")
    # All else by the uplink's address.
    wire = Capture(net.mid, "west", "udp port 7002")
    with carries(net, 300):
        stream(net, net.client, net.gwb.host, t.WAN_B4, port=7002)
    assert {str(f.src) for f in wire.stop()} == {t.WAN_A4, t.WAN_B4}


@recipe("host-to-host", "culvert")
def test_host_to_host(network, name):
    cooked = Cooked(network, name, "host2host")
    net = cooked.follow()
    assert net.gwa.swan.children("hosts")[0]["mode"] == "TRANSPORT"
    a, b = net.gwa.host, net.gwb.host
    cooked.reach((a, t.WAN_B4), (b, t.WAN_A4))
    cooked.carry(a, b, t.WAN_B4, "hosts")
    # The addresses are on the wire, what they say is not.
    cooked.well(f"--from {t.WAN_A4} --to {t.WAN_B4}", protected=(), but=("forwarding",))


@recipe("vxlan-between-sites", "culvert")
def test_vxlan_between_sites(network, name):
    cooked = Cooked(network, name)
    net = cooked.follow()
    assert net.gwa.swan.children("vxlan")[0]["mode"] == "TRANSPORT"
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    cooked.carry(net.client, net.server, t.SERVER4, "vxlan")
    (row,) = net.gwa.daemon.json("route")["overlays"]
    assert row["carried"] and row["far_ends"] >= 1, row
    cooked.well(f"--from {t.CLIENT4} --to {t.SERVER4} --in lan", answers="headers of vx0")


@recipe("certificates-ipv6", "culvert+libipsec")
def test_certificates(network, lab, name):
    cooked = Cooked(network, name)
    certificates(name, lab.tmp / "pki")
    cooked.certify(lab.tmp / "pki", "gwa", "gwb")
    net = cooked.follow()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4), (net.client, t.SERVER6), (net.server, t.CLIENT6))
    cooked.carry(net.client, net.server, t.SERVER6, "net")
    assert {frame.src.version for frame in cooked.wire.frames() if frame.is_esp} == {6}
    cooked.well(f"--from {t.CLIENT6} --to {t.SERVER6}")


@recipe("opnsense-pfsense", "culvert+libipsec")
def test_opnsense(network, name):
    cooked = Cooked(network, name)
    net = cooked.follow()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    cooked.carry(net.client, net.server, t.SERVER4, "net")
    assert suites(net.gwa) == {"aes256-sha256"}
    # The other side renews it first.
    cooked.carry(net.client, net.server, t.SERVER4, "con1", net.gwb)
    cooked.well(WHY)


@recipe("fritzbox", "culvert+libipsec")
def test_fritzbox(network, name):
    cooked = Cooked(network, name)
    net = cooked.follow()
    assert net.gwa.swan.sas()[0][1]["version"] == "1"
    assert suites(net.gwa) == {"aes256-sha1"}
    # Not under traffic: who answers in IKEv1 has the new SA after the one who asked begins to use it.
    rekey(net.gwa, "net")
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    cooked.carry(net.client, net.server, t.SERVER4)
    cooked.well(WHY)
