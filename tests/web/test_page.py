"""The page of `culvert web` in headless Chromium, held against the other commands."""

from urllib.parse import urlsplit

from lab import topology as t
from lab.base import wait_for
from lab.traffic import Stream, assert_ping
from lab.web import BLOCKED, DOWN, PORT, Web, prepared, readable

DESKTOP, PHONE = (1280, 900), (390, 844)


def values(browser, selector):
    """The numbers of a column, as the page has them for programs, with the text beside each."""
    script = "return [...document.querySelectorAll(arguments[0])].map(e => [Number(e.dataset.value), e.innerText])"
    return browser.script(script, selector)


def digits(text):
    return int("".join(c for c in text if c.isdigit()))


def test_the_page_shows_what_json_says(network, browse):
    net = readable(network(), captures=True)
    prepared(net)
    gwa = net.gwa
    web = Web(gwa, "--capture")
    # While packets come: the graphs move.
    stream = Stream(net.client, net.server, t.SERVER4, rate=1500, size=1200, most=100)
    with gwa.host.entered():
        browser = browse(gwa.host.lab.tmp)
        browser.look(*DESKTOP, "light")
        browser.driver.get(web.url)
        wait_for("the page", lambda: browser.text("#state") == "live")
        assert "#" not in browser.driver.current_url, "the token does not stay in sight"
        port = "#port-cards .port:first-child"
        wait_for("a rate in the graph", lambda: "Mbit/s" in browser.text(f"{port} tr:first-child td"))
        assert "Mbit/s" in browser.text("[data-rate^=up]") and browser.find(f"{port} path.line.in").get_attribute("d")
        # Graphs of some length, to be looked at.
        wait_for("a graph", lambda: browser.find("#sas-table path.line").get_attribute("d").count("L") >= 12, step=1)
        for name, size, scheme in (
            ("busy-light", DESKTOP, "light"), ("busy-dark", DESKTOP, "dark"), ("busy-phone", PHONE, "light"),
        ):  # fmt: skip
            browser.look(*size, scheme)
            wait_for("a drawing that fits", lambda: fits(browser))
            browser.picture(name)
        browser.picture("busy-phone-top", whole=False)
        browser.look(*DESKTOP, "light")
        stream.finish()
        assert_ping(net.client, t.SERVER4, count=3)

        # Quiet now: the same numbers. What goes on by itself (neighbour discovery) may come between.
        def sas():
            told = gwa.daemon.json("sa")
            shown = values(browser, "#sas-table tbody td:nth-child(9)")
            assert [digits(text.replace("Packets", "")) for _, text in shown] == [value for value, _ in shown]
            return [value for value, _ in shown] == [sa["packets"] for sa in told]

        def drops():
            told = {reason: number for reason, number in gwa.daemon.drops().items() if number}
            names = [cell.text for cell in browser.all("#drops-table tbody td:nth-child(1)")]
            shown = [value for value, _ in values(browser, "#drops-table tbody td:nth-child(2)")]
            return dict(zip(names, shown, strict=True)) == told

        def ports():
            told = [n for port in gwa.daemon.json("port") for n in (port["rx_packets"], port["tx_packets"])]
            return [value for value, _ in values(browser, "#port-cards td:nth-child(4)")] == told

        def policies():
            told = [policy["packets"] for policy in gwa.daemon.json("policy")]
            return [value for value, _ in values(browser, "#policies-table tbody td:nth-child(8)")] == told

        for same in (sas, drops, ports, policies):
            wait_for(f"the same {same.__name__}", same, step=0.3)
        assert "out-policy-block" in browser.text("#drops-table")
        meaning = next(r["meaning"] for r in web.json("about")["reasons"] if r["reason"] == "out-policy-block")
        assert meaning in browser.text("#drops-table")
        # The drawing: one tunnel that is up, and one without an SA.
        drawn = browser.script("return [...document.querySelectorAll('#drawing a rect title')].map(e => e.textContent)")
        assert any(label.startswith(f"{t.WAN_B4}: up") for label in drawn), drawn
        assert any(label.startswith(f"{DOWN}: no SA") for label in drawn), drawn
        assert "sa-up" in browser.text("#event-list")
        assert {urlsplit(url).netloc for url in browser.requests()} == {f"127.0.0.1:{PORT}"}
        wrong = [line for line in browser.driver.get_log("browser") if line["level"] == "SEVERE"]
        assert not wrong, wrong


def fits(browser):
    """Whether the drawing has been made anew for the window."""
    return browser.script(
        "const d = document.querySelector('#drawing svg');"
        "return Math.abs(d.clientWidth - d.parentElement.clientWidth) < 2"
    )


def test_forms_and_looks(network, browse):
    net = readable(network(), captures=True)
    prepared(net)
    gwa = net.gwa
    web = Web(gwa, "--capture")
    with gwa.host.entered():
        browser = browse(gwa.host.lab.tmp)
        browser.look(*DESKTOP, "light")
        # Without a token it asks for it.
        browser.driver.get(web.url.split("#")[0])
        wait_for("a form for the token", lambda: browser.find("#token").is_displayed())
        assert not browser.find("#all").is_displayed()
        assert browser.violations() == []
        browser.find("#token input").send_keys("0" * 64 + "\n")
        wait_for("a fault", lambda: "another one" in browser.text("#token .fault"))
        browser.find("#token input").clear()
        browser.find("#token input").send_keys(web.token + "\n")
        wait_for("the page", lambda: browser.find("#all").is_displayed())

        def events():
            told = gwa.daemon.culvert("events", "--once").stdout.splitlines()
            return [line.split()[1] for line in reversed(told)] == [name.text for name in browser.all("#event-list b")]

        wait_for("the same events", events)
        asks_why(browser, gwa)
        captures(browser, net)
        walks_by_keyboard(browser)
        for name, size, scheme in (
            ("light", DESKTOP, "light"), ("dark", DESKTOP, "dark"), ("tablet", (820, 1180), "light"),
            ("phone", PHONE, "light"), ("phone-dark", PHONE, "dark"),
        ):  # fmt: skip
            browser.look(*size, scheme)
            wait_for("a drawing that fits", lambda: fits(browser))
            browser.picture(name)
            assert browser.violations() == [], name
            overflow = browser.script("return document.documentElement.scrollWidth - innerWidth")
            assert overflow <= 0, (name, overflow)

        # The daemon goes: it is said, and what was seen stays. It comes: it goes on.
        gwa.daemon.stop()
        wait_for("a word about it", lambda: "no daemon answers" in browser.text("#old"))
        assert browser.violations() == []
        assert browser.find("#sas-table").is_displayed()
        gwa.daemon.start()
        wait_for("the page again", lambda: browser.text("#state") == "live")


def asks_why(browser, gwa):
    """The form's answer is that of the command."""
    told = gwa.daemon.json("why", "--from", t.CLIENT4, "--to", BLOCKED, "--proto", "tcp", "--dport", "443")
    for name, value in (("from", t.CLIENT4), ("to", BLOCKED), ("dport", "443")):
        browser.find(f"#why-form [name={name}]").send_keys(value)
    browser.find("#why-form [name=proto]").send_keys("tcp")
    browser.find("#why-form button").click()
    wait_for("an answer", lambda: told["verdict"] in browser.text("#why-answer"))
    questions = [step.text for step in browser.all("#why-answer dt")]
    answers = [step.text for step in browser.all("#why-answer dd")]
    assert questions == [step["question"] for step in told["steps"]]
    assert answers == [step["answer"] for step in told["steps"]]
    assert [hint.text for hint in browser.all("#why-answer li")] == told["hints"]
    refuses(browser, "from", "lan", "From: an address such as 10.1.0.5 or fd00:1::5.", t.CLIENT4)
    refuses(browser, "dport", "http", "Destination port: a number from 0 to 65535", "443")
    refuses(browser, "in", "nope", "Comes in by: in nope: there is no such interface", "")
    # A port without a protocol: which one is asked for.
    protocol = browser.find("#why-form [name=proto]")
    protocol.send_keys("ping")
    browser.find("#why-form button").click()
    wait_for("a fault", lambda: browser.text("#why-answer .fault").startswith("Protocol: a protocol that has ports"))
    assert protocol.get_attribute("aria-invalid") == "true"
    protocol.send_keys("tcp")
    browser.find("#why-form button").click()
    wait_for("an answer again", lambda: told["verdict"] in browser.text("#why-answer"))
    assert protocol.get_attribute("aria-invalid") is None


def refuses(browser, name, wrong, says, right):
    """The form says in its own words what is wrong, marks the field and leads to it; then it is put right."""
    field = browser.find(f"#why-form [name={name}]")
    field.clear()
    field.send_keys(f"{wrong}\n")
    said = wait_for("a fault", lambda: browser.text("#why-answer .fault"))
    assert said.startswith(says) and "--" not in said and "<" not in said, said
    assert field.get_attribute("aria-invalid") == "true" and browser.driver.switch_to.active_element == field
    assert browser.find(f"#{field.get_attribute('aria-describedby')}").text == said
    assert browser.violations() == []
    field.clear()
    field.send_keys(f"{right}\n")
    wait_for("an answer again", lambda: browser.text("#why-answer .verdict"))
    assert field.get_attribute("aria-invalid") is None


def captures(browser, net):
    """A capture becomes a file."""
    pings = net.client.spawn("ping", "-i", "0.2", t.SERVER4)
    seconds = browser.find("#capture-form [name=duration]")
    seconds.clear()
    seconds.send_keys("2")
    browser.find("#capture-form button").click()
    wait_for("a capture", lambda: browser.text("#capture-said").startswith("Done"))
    files = wait_for("a file", lambda: list(net.gwa.host.lab.tmp.glob("culvert-*.pcapng")))
    assert files[0].read_bytes()[:4] == b"\n\r\r\n" and files[0].stat().st_size > 1000
    pings.stop()


def walks_by_keyboard(browser):
    """Tab comes to everything that can be used, in the order of the page, and what has the focus keeps it."""
    from selenium.webdriver.common.keys import Keys

    usable = "a[href], button, input, select, summary, [tabindex='0']"
    expected = browser.script(
        "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility() && !e.disabled).length", usable
    )
    # The first thing of all leads past the others.
    browser.script("const first = document.querySelector('.skip'); first.focus(); window.seen = new Set([first])")
    places = []
    for _ in range(expected + 5):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        place = browser.script(
            "const e = document.activeElement; if (e === document.body) return null;"
            "const again = seen.has(e); seen.add(e);"
            "const style = getComputedStyle(e.querySelector('.box') ?? e);"
            "return [again, e.getBoundingClientRect().top + scrollY, style.outlineStyle !== 'none' || style.strokeWidth === '3px']"
        )
        if place is None or place[0]:
            break
        places.append(place)
    assert len(places) >= expected - 1, (len(places), expected)
    assert all(visible for _, _, visible in places), "one sees where the focus is"
    # A peer of the drawing keeps it while numbers change, and leads to its SA.
    peer = browser.find("#drawing a[href^='#sa-']")
    browser.script("arguments[0].focus()", peer)
    wait_for("another second", lambda: browser.script(
        "window.beats ??= performance.now(); return performance.now() - beats > 2500"
    ))  # fmt: skip
    assert browser.driver.switch_to.active_element == peer
    peer.send_keys(Keys.ENTER)
    assert browser.script("return location.hash === arguments[0].getAttribute('href')", peer)
