"""A headless Chromium inside a host's network namespace, where there is no way to the Internet."""

import base64
import json
import os
import shutil

import pytest
from lab.base import ROOT

AXE = ROOT / "build" / "axe" / "axe.min.js"

#: Screenshots are left here, to be looked at.
PICTURES = ROOT / "target" / "web"


def _missing():
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            return f"no {program}: make web-test installs it"
    return None if AXE.exists() else "no axe-core: scripts/fetch-axe"


class Browser:
    """Chromium, and what a person would look at."""

    def __init__(self, driver):
        self.driver = driver

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
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole})
        (PICTURES / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

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


@pytest.fixture
def browse():
    """Opens a browser in a host; one at a time. Use it, and everything with it, inside `host.entered()`."""
    missing = _missing()
    if missing:
        (pytest.fail if os.environ.get("CULVERT_REQUIRE") else pytest.skip)(missing)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    drivers = []

    def open_browser(downloads):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--disable-background-networking", f"--user-data-dir={downloads}/profile"):  # fmt: skip
            options.add_argument(argument)
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = Service(shutil.which("chromedriver"))
        drivers.append(webdriver.Chrome(options=options, service=service))
        return Browser(drivers[-1])

    yield open_browser
    for driver in drivers:
        driver.quit()
