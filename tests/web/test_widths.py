"""The page at the widths of telephones, tablets and screens: nothing is cut, and nothing scrolls sideways."""

from lab import topology as t
from lab.base import wait_for
from lab.traffic import Stream
from lab.web import Web, prepared, readable

WIDTHS = (320, 375, 768, 1000, 1100, 1200, 1600)

#: Elements that are cut, with ports as busy as they come: what is wider than what shows it, or ends beyond the window.
CUT = """
for (const line of document.querySelectorAll("#port-cards tr")) {
  line.children[1].textContent = "99.9\u00a0Gbit/s";
  line.children[2].textContent = "99.9\u00a0Mpkt/s";
  line.children[3].textContent = "123\u202f456\u202f789\u202f012 packets";
}
const cut = [];
if (document.documentElement.scrollWidth > innerWidth) cut.push(`the page has ${document.documentElement.scrollWidth} pixels`);
for (const e of document.querySelectorAll("main *, header *")) {
  if (!e.checkVisibility() || e.closest("svg, .skip, select, datalist, [data-fit=cards] thead")) continue;
  const box = e.getBoundingClientRect();
  if (!box.width) continue;
  if (box.right > innerWidth + 1 || (e.scrollWidth > e.clientWidth + 1 && e.clientWidth && getComputedStyle(e).overflowX !== "visible"))
    cut.push(`${e.tagName} ${e.id || e.className}: ${e.innerText?.slice(0, 40)} ends at ${Math.round(box.right)}`);
}
return cut;
"""


def test_every_width_shows_all_of_it(network, browse):
    net = readable(network(), captures=True)
    prepared(net)
    gwa = net.gwa
    # SAs of long names and none that is used: the widest table there is.
    gwa.daemon.exec("ip", "xfrm", "state", "add", "src", t.WAN_B6, "dst", t.WAN_A6, "proto", "esp", "spi", "0x5001",
                    "reqid", "77", "mode", "tunnel", "enc", "cbc(aes)", "0x" + "11" * 32,
                    "auth-trunc", "hmac(sha512)", "0x" + "22" * 64, "256")  # fmt: skip
    stream = Stream(net.client, net.server, t.SERVER4, rate=1500, size=1200, most=100)
    web = Web(gwa, "--capture")
    with gwa.host.entered():
        browser = browse(gwa.host.lab.tmp)
        browser.look(1600, 900, "light")
        browser.driver.get(web.url)
        wait_for("the page", lambda: "unused" in browser.text("#sas-table"))
        wrong = {}
        for width in WIDTHS:
            browser.look(width, 900, "light")
            # The drawing and the tables are made anew for the window.
            wait_for("a drawing that fits", lambda: browser.script(
                "const d = document.querySelector('#drawing svg');"
                "return Math.abs(d.clientWidth - d.parentElement.clientWidth) < 2"
            ))  # fmt: skip
            browser.script("document.querySelector('#why-form details').open = true")
            cut = browser.script(CUT)
            if cut:
                wrong[width] = cut[:4]
            browser.picture(f"width-{width}")
        assert not wrong, wrong
        # An IPv4 gateway's SAs are a table on every screen, and cards where there is no room.
        browser.look(1200, 900, "light")
        browser.find("#sas-filter").send_keys("192.0.2")
        wait_for("a table", lambda: browser.find("#sas-table").get_attribute("data-fit") != "cards")
        browser.look(600, 900, "light")
        wait_for("cards", lambda: browser.find("#sas-table").get_attribute("data-fit") == "cards")
    stream.finish()
