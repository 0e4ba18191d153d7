"""Text that others can influence, in a real browser: none of it becomes markup, and no script of it runs."""

import json
import socket
import threading
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.web import PORT, Web, prepared, readable

#: Each would run if it stood where its like is at home: in an element, an attribute, a script, a link, a style.
SHOTS = (
    '<img src=x onerror="window.hit=1">',
    '"><svg onload=window.hit=1>',
    "'><script>window.hit=1</script>",
    "</title><script>window.hit=1</script>",
    "javascript:window.hit=1//",
    "`${window.hit=1}`",
    '"onfocus="window.hit=1"autofocus x="',
    "</style><style>*{background:url(//evil.example)}",
    "&lt;img src=x onerror=window.hit=1&gt;",
)

#: What the page decides by, and shows as it is told all the same.
DECISIVE = ("direction", "event", "fate")

#: Where text of the daemon's is shown.
PLACES = ("#instance", "#about", "#warnings", "#port-cards", "#sas-table", "#policies-table", "#event-list", "#drawing",
          "#why-answer")  # fmt: skip

WATCH = """
window.broken = [];
document.addEventListener("securitypolicyviolation", e => broken.push(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
window.addEventListener("error", e => broken.push(`error ${e.message}`), true);
window.addEventListener("unhandledrejection", e => broken.push(`rejection ${e.reason}`));
"""

#: Elements that could do something, by name and id.
ACTIVE = """
return [...document.querySelectorAll("img, iframe, object, embed, base, link, style, script, form")]
    .map(e => `${e.tagName} ${e.id}`);
"""

LOOK = """
const handlers = [...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => /^on|^style$/i.test(a.name)));
const links = [...document.querySelectorAll("[href], [src], [action]")].map(e => e.href?.baseVal ?? e.href ?? e.src)
    .filter(link => !/^(#|http:\\/\\/127\\.0\\.0\\.1:)/.test(link));
return [window.hit ?? null, handlers.map(e => e.outerHTML), links, window.broken];
"""


class Mimic:
    """A daemon that says what another one says, with hostile text in all of it."""

    def __init__(self, daemon, shot, spared):
        self.name = f"{daemon.name}-mimic"
        self.told, self.shot, self.spared = Path(f"/run/culvert/{daemon.name}/control.sock"), shot, spared
        self.path = Path(f"/run/culvert-read/{self.name}.sock")
        self.path.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(self.path))
        self.path.chmod(0o666)
        self.socket.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self.socket.close()
        self.path.unlink(missing_ok=True)

    def _serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client):
        with client, socket.socket(socket.AF_UNIX) as real:
            real.connect(str(self.told))
            real.sendall(client.makefile("rb").readline())
            answer = json.loads(real.makefile("rb").read())
            client.sendall(json.dumps(self.changed(answer)).encode())

    def changed(self, value, key=""):
        if isinstance(value, dict):
            return {name: self.changed(one, name) for name, one in value.items()}
        if key == "warnings" and isinstance(value, list):
            value = [*value, "one more"]
        if isinstance(value, list):
            return [self.changed(one, key) for one in value]
        if not isinstance(value, str) or key in self.spared:
            return value
        return value + self.shot if self.spared else self.shot


def own_elements(browser, url):
    """What the page has of those elements by itself."""
    browser.driver.get(url)
    return browser.script(ACTIVE)


def leave(browser):
    """Leaves the page, with what it has said so far."""
    browser.driver.get("about:blank")
    browser.driver.get_log("browser")


def assert_nothing_ran(browser, own, what):
    hit, handlers, links, broken = browser.script(LOOK)
    assert hit is None, what
    # No more of those than the page has by itself.
    assert browser.script(ACTIVE) == own, what
    assert not handlers and not links, (what, handlers, links)
    assert not broken, (what, broken)
    assert {urlsplit(url).netloc for url in browser.requests()} <= {f"127.0.0.1:{PORT}"}, what
    # The browser itself says where an answer was a refusal.
    wrong = [line for line in browser.driver.get_log("browser") if line["level"] == "SEVERE" and " status of 4" not in line["message"]]
    assert not wrong, (what, wrong)


@pytest.fixture
def mimics():
    all_of_them = []
    yield all_of_them.append
    for mimic in all_of_them:
        mimic.close()


def test_no_text_of_others_becomes_markup(network, browse, mimics):
    net = readable(network())
    prepared(net)
    gwa = net.gwa
    real = Web(gwa)
    with gwa.host.entered():
        browser = browse(gwa.host.lab.tmp)
        browser.look(1280, 900, "light")
        browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        own = own_elements(browser, real.url)
        leave(browser)
        real.process.stop()
        for shot in SHOTS:
            for spared in (DECISIVE, ()):
                mimic = Mimic(gwa.daemon, shot, spared)
                mimics(mimic)
                web = Web(gwa, name=mimic.name)
                browser.driver.get(web.url)
                wait_for("the page", lambda: browser.text("#state") == "live")
                if spared:
                    for name, value in (("from", t.CLIENT4), ("to", t.SERVER4)):
                        browser.find(f"#why-form [name={name}]").send_keys(value)
                    browser.find("#why-form button").click()
                    wait_for("an answer", lambda: "protected" in browser.text("#why-answer"))
                    # It is there to be read, as it is.
                    for place in PLACES:
                        assert shot in browser.script("return document.querySelector(arguments[0]).textContent", place), (shot, place)
                assert shot in browser.script("return document.title")
                # Twice more, as what is shown already is changed then.
                browser.script("window.looked = performance.getEntriesByName(location.origin + '/api/sa').length")
                wait_for("another look", lambda: browser.script("return performance.getEntriesByName(location.origin + '/api/sa').length > looked + 1"))
                assert_nothing_ran(browser, own, (shot, spared))
                leave(browser)
                web.process.stop()
                mimic.close()


def test_what_a_visitor_is_led_to_is_no_markup_either(network, browse):
    """By links, by forms, and by names of interfaces, which a container's owner may choose."""
    net = readable(network())
    odd = "<b>\"'&{x}"
    gwa = net.gwa
    gwa.daemon.settings += f"[[port]]\ninterface = {json.dumps(odd)}\n"
    gwa.daemon.write_config()
    prepared(net)
    web = Web(gwa)
    with gwa.host.entered():
        browser = browse(gwa.host.lab.tmp)
        browser.look(1280, 900, "light")
        browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        own = own_elements(browser, web.url)
        wait_for("the page", lambda: browser.text("#state") == "live")
        for place in ("#port-cards", "#warnings", "#drawing"):
            text = browser.script("return document.querySelector(arguments[0]).textContent", place)
            assert odd in text, (place, text)
        browser.find("#why-form [name=from]").send_keys(t.CLIENT4)
        browser.find("#why-form [name=to]").send_keys(t.SERVER4)
        for shot in SHOTS:
            field = browser.find("#why-form [name=in]")
            field.clear()
            field.send_keys(shot + "\n")
            answer = "return document.querySelector('#why-answer').textContent"
            wait_for("a fault", lambda: f"in {shot}: there is no such interface" in browser.script(answer))
            browser.find("#sas-filter").clear()
            browser.find("#sas-filter").send_keys(shot)
        assert_nothing_ran(browser, own, "forms")
        origin = web.url.split("#")[0]
        for shot in SHOTS:
            leave(browser)
            browser.driver.get(f"{origin}#{shot}{'x' * 40}")
            wait_for("a form for the token", lambda: browser.find("#token").is_displayed())
            assert_nothing_ran(browser, own, ("hash", shot))
            for path in (f"{quote(shot)}", f"api/{quote(shot)}", f"api/why?from={quote(shot)}", f"?{quote(shot)}"):
                browser.driver.get(origin + path)
                assert browser.script("return window.hit ?? null") is None, path
                assert browser.script("return document.querySelectorAll('img, svg[onload]').length") == 0, path
