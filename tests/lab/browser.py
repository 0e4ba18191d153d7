"""A headless Chromium inside a host's network namespace, where there is no way to the Internet."""

import base64
import json
import shutil

from .base import ROOT

AXE = ROOT / "build" / "axe" / "axe.min.js"

#: Screenshots are left here, to be looked at.
PICTURES = ROOT / "target" / "web"


def missing():
    """Why there is no browser, if there is none."""
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            return f"no {program}: make web-test installs it"
    return None


class Browser:
    """Chromium, and what a person would look at. Made and used inside `host.entered()`."""

    def __init__(self, downloads):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--disable-background-networking", f"--user-data-dir={downloads}/profile"):  # fmt: skip
            options.add_argument(argument)
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))

    def quit(self):
        self.driver.quit()

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector):
        """Empty where there is no such element yet."""
        return next((element.text for element in self.all(selector)), "")

    def look(self, width, height, scheme):
        """A window of this size, whose owner wants `light` or `dark`."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def picture(self, name, whole=True):
        """The page as a PNG: all of it, or what fits into the window."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / f"{name}.png").write_bytes(self.shot(whole))

    def shot(self, whole=True):
        """The bytes of such a PNG."""
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole})
        return base64.b64decode(shot["data"])

    def violations(self):
        """What axe-core finds, as text."""
        found = self.driver.execute_cdp_cmd(
            "Runtime.evaluate",
            # Not by a script element: the page's policy forbids those.
            {"expression": AXE.read_text() + ";axe.run().then(r => JSON.stringify(r.violations))",
             "awaitPromise": True, "returnByValue": True},
        )  # fmt: skip
        violations = json.loads(found["result"]["value"])
        return [
            f"{v['id']} ({v['impact']}): {v['help']}: {node['html'][:200]} {node['failureSummary']}"
            for v in violations
            for node in v["nodes"]
        ]

    def requests(self):
        """URLs of everything that the page has asked for."""
        return self.script("return performance.getEntriesByType('resource').map(entry => entry.name)")
