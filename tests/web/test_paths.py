"""Measured paths on the page: lines with live delay and loss, and the applications that take each."""

import re

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.branch import UPLINKS, branch, impaired
from lab.traffic import Stream
from lab.web import Web, readable

PROBES = "interval_ms = 50\nmisses = 5\nwindow = 40\ntimeout_ms = 500\nhold_s = 1"

RULES = """
[[steer]]
name = "calls"
application = "call"
paths = ["mpls", "internet", "lte"]
max_loss_percent = 4
return_after_s = 2

[[steer]]
name = "rest"
paths = ["internet", "lte"]
spread = "share"
weights = [4, 1]

[applications]
enabled = true

[[application]]
name = "call"
ports = ["7000"]
protocol = "udp"
"""

NAMES = [uplink.name for uplink in UPLINKS]

#: What each line says: name, state, delay, loss, and the applications on it.
LINES = """
return Object.fromEntries([...document.querySelectorAll("#path-lines > li")].map(line => [line.querySelector("b").innerText, {
  look: line.className, state: line.querySelector(".badge").innerText, rules: line.lastElementChild.firstElementChild.innerText,
  delay: Number(line.querySelector(".delay").dataset.value), loss: Number(line.querySelector(".loss").dataset.value),
  apps: [...line.querySelectorAll(".apps span:first-child")].map(app => app.innerText),
  points: line.querySelector(".line.delay").getAttribute("d").split("L").length,
}]))
"""

#: Parts of the section that are cut, or end beyond the window.
CUT = """
return [...document.querySelectorAll("#paths *")].filter(e => e.checkVisibility() && !e.closest("svg, [data-fit=cards] thead")
    && (e.getBoundingClientRect().right > innerWidth + 1 || e.clientWidth && e.scrollWidth > e.clientWidth + 1)).map(e => e.outerHTML.slice(0, 80))
"""


@pytest.fixture
def site(network):
    wires = []

    def make():
        net = readable(network())
        wires.append(branch(net, path=PROBES, config=RULES))
        return net, wires[-1]

    yield make
    for wire in wires:
        wire.close()


def test_paths_are_lines_and_name_who_takes_them(site, browse):
    net, wire = site()
    gwa = net.gwa
    web = Web(gwa)
    wait_for("paths", lambda: {path["state"] for path in gwa.daemon.json("path")["paths"]} == {"good"})
    wire.set(*impaired(internet={"delay_ms": 20}, lte={"delay_ms": 40}))
    stream = Stream(net.client, net.server, t.SERVER4, rate=300, size=600, most=100)
    with gwa.host.entered():
        browser = browse(gwa.host.lab.tmp)
        browser.look(1280, 900, "light")
        browser.driver.get(web.url)
        wait_for("the page", lambda: browser.text("#state") == "live")

        def line(name):
            return browser.script(LINES).get(name, {"apps": []})

        wait_for("an application on its path", lambda: line("mpls")["apps"] == ["call"])
        assert set(browser.script(LINES)) == set(NAMES)
        assert re.search(r"^call\s.*mpls .*bit/s", browser.text("#apps-table tbody tr"), re.DOTALL), browser.text("#apps-table")
        wait_for("delays", lambda: line("internet")["delay"] > 35 and line("lte")["delay"] > 75)
        assert line("lte")["delay"] > line("internet")["delay"] > line("mpls")["delay"] > 0
        assert (line("mpls")["rules"], line("lte")["rules"]) == ("Rules calls: all", "Rules rest: 1 of 5")
        wait_for("graphs", lambda: line("mpls")["points"] >= 12)
        # One dies, one loses: the application has moved, and the page says so.
        wire.set(*impaired(mpls={"cut": True}, lte={"delay_ms": 40, "loss": 0.3}))
        wait_for("a dead path", lambda: line("mpls")["state"] == "dead" and line("mpls")["look"] == "path down")
        wait_for("loss", lambda: line("lte")["loss"] > 5)
        wait_for("the application elsewhere", lambda: line("internet")["apps"] == ["call"] and not line("mpls")["apps"], timeout=30)
        told = {path["name"]: path for path in gwa.daemon.json("path")["paths"]}
        assert abs(line("internet")["delay"] - told["internet"]["delay_ms"]) < 20
        assert "calls: by internet" in browser.text("#event-list")
        for name, size, scheme in (
            ("paths-light", (1280, 900), "light"), ("paths-dark", (1280, 900), "dark"), ("paths-phone", (390, 844), "light"),
            ("paths-narrow", (320, 844), "dark"), ("paths-tablet", (800, 900), "light"),
        ):  # fmt: skip
            browser.look(*size, scheme)
            wait_for("a drawing that fits", lambda: browser.script(
                "const d = document.querySelector('#drawing svg');"
                "return Math.abs(d.clientWidth - d.parentElement.clientWidth) < 2"
            ))  # fmt: skip
            assert browser.script(CUT) == [], name
            browser.script("document.querySelector('#paths').scrollIntoView()")
            browser.picture(name, whole=False)
            assert browser.violations() == [], name
        wrong = [entry for entry in browser.driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert not wrong, wrong
    stream.finish()
