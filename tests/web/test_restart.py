"""The page while its daemon is away: what it shows is said to be old, and nothing of it looks alive."""

import os
import re
import signal

from lab import topology as t
from lab.base import wait_for
from lab.traffic import Stream
from lab.web import Web, prepared, readable

#: Colours of what works, in light and in dark.
GREEN = ("rgb(26, 115, 64)", "rgb(109, 207, 149)")

#: Elements that have one of them.
LIVELY = """
const found = [];
for (const e of document.querySelectorAll("main *, #state")) {
  if (!e.checkVisibility()) continue;
  const style = getComputedStyle(e);
  for (const what of ["color", "stroke", "fill", "borderTopColor", "borderLeftColor"])
    if (arguments[0].includes(style[what])) found.push(`${e.tagName} ${e.id || e.getAttribute("class")}: ${what}`);
}
return found;
"""

RATE = re.compile(r"\d\s[kMGT]?(pkt|bit)/s")


def is_old(browser):
    said = browser.text("#old")
    return re.search(r"As of \d\d:\d\d:\d\d\sUTC, no answer for \d+\ss", said) and said


def assert_old(browser, reason):
    said = wait_for("a word about what is old", lambda: is_old(browser))
    assert reason in said, said
    assert browser.find("#sas-table").is_displayed()
    lively = browser.script(LIVELY, list(GREEN))
    assert not lively, lively[:5]
    rates = [line for line in browser.text("#all").splitlines() if RATE.search(line) and "peak" not in line]
    assert not rates, rates
    for state in browser.all("#port-cards .badge"):
        assert state.text.startswith("was "), state.text
    drawn = browser.script("return [...document.querySelectorAll('#drawing a rect title')].map(e => e.textContent)")
    assert drawn and all(": was " in label for label in drawn), drawn
    assert browser.text("#state") == "no answer" and browser.driver.title.startswith("(no answer) ")


def test_a_daemon_that_is_away_looks_like_one(network, browse):
    net = readable(network())
    prepared(net)
    gwa = net.gwa
    web = Web(gwa)
    stream = Stream(net.client, net.server, t.SERVER4, rate=1500, size=1200, most=100)
    with gwa.host.entered():
        browser = browse(gwa.host.lab.tmp)
        browser.look(1280, 900, "light")
        browser.driver.get(web.url)
        wait_for("the page", lambda: browser.text("#state") == "live")
        wait_for("rates", lambda: RATE.search(browser.text("#port-cards")))
        assert browser.script(LIVELY, list(GREEN)), "there is something green"
        # It hangs: nobody says no, and still nothing looks alive.
        os.kill(gwa.daemon.process.pid, signal.SIGSTOP)
        try:
            wait_for("a word about what is old", lambda: is_old(browser))
            assert not browser.script(LIVELY, list(GREEN))
        finally:
            os.kill(gwa.daemon.process.pid, signal.SIGCONT)
        wait_for("the page again", lambda: browser.text("#state") == "live")
        # It is gone.
        gwa.daemon.stop()
        assert_old(browser, "no daemon answers")
        browser.picture("old")
        # How long is said as it passes.
        first = is_old(browser)
        wait_for("seconds", lambda: is_old(browser) not in (first, None))
        # A page that is opened meanwhile says so too, and comes as soon as the daemon does.
        browser.driver.refresh()
        wait_for("a word about it", lambda: "no daemon answers" in browser.text("#old"))
        assert not browser.find("#all").is_displayed()
        gwa.daemon.start()
        wait_for("the page again", lambda: browser.text("#state") == "live")
        assert browser.find("#all").is_displayed() and not browser.find("#old").is_displayed()
        assert browser.driver.title == f"culvert {gwa.daemon.name}"
    stream.finish()
