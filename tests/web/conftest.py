"""A browser for tests of the page."""

import os

import pytest
from lab.browser import AXE, Browser, missing


@pytest.fixture
def browse():
    """Opens a browser in a host; one at a time. Use it, and everything with it, inside `host.entered()`."""
    why = missing() or (None if AXE.exists() else "no axe-core: scripts/fetch-axe")
    if why:
        (pytest.fail if os.environ.get("CULVERT_REQUIRE") else pytest.skip)(why)
    browsers = []

    def open_browser(downloads):
        browsers.append(Browser(downloads))
        return browsers[-1]

    yield open_browser
    for browser in browsers:
        browser.quit()
