"""The built site in a real browser: pages open, search finds, small screens do."""

from __future__ import annotations

import pytest

from tests.site.conftest import BUILT

PARTS = 8  # of the pages, for workers side by side
ALL = sorted(
    path.relative_to(BUILT).as_posix()
    for path in BUILT.rglob("*.html")
    if "_static" not in path.parts
)
SEEN = [name for name in ALL if "generated" not in name][::3]  # on a small screen
PHONE = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}


def wait_for(browser, selector):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 20).until(
        lambda page: page.find_elements("css selector", selector)
    )


def complaints(browser):
    """What the console says, apart from the theme's notes."""
    return [line for line in browser.get_log("browser") if line["level"] != "INFO"]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_page_opens_without_an_error(browser, address, part):
    for name in ALL[part::PARTS]:
        browser.get(f"{address}/{name}")
        assert wait_for(browser, "h1, #search-results"), name
        assert complaints(browser) == [], name


def test_search_finds_missing_views(browser, address):
    browser.get(f"{address}/search.html?q=missing+views")
    found = wait_for(browser, "#search-results ul.search li a")
    assert any("views.html" in link.get_attribute("href") for link in found)
    assert complaints(browser) == []


def test_search_opens_from_any_page(browser, address):
    browser.get(f"{address}/memory.html")
    browser.find_element("css selector", "button.search-button__button").click()
    box = wait_for(browser, "dialog[open] input[type=search]")[0]
    box.send_keys("duality gap\n")
    wait_for(browser, "#search-results ul.search li a")
    assert "search.html" in browser.current_url


def test_the_reader_chooses_light_or_dark(browser, address):
    browser.get(f"{address}/index.html")
    root = browser.find_element("css selector", "html")
    ground = "return getComputedStyle(document.body).backgroundColor"
    grounds = {}
    for mode in ("light", "dark"):
        browser.execute_script("arguments[0].dataset.theme = arguments[1]", root, mode)
        grounds[mode] = browser.execute_script(ground)
    assert grounds["light"] != grounds["dark"]


def test_pages_fit_a_small_screen(browser, address):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    wide = {}
    for name in SEEN:
        browser.get(f"{address}/{name}")
        width = browser.execute_script("return document.documentElement.scrollWidth")
        if width > PHONE["width"]:
            wide[name] = width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide == {}


def test_the_picture_of_the_demo_is_on_the_first_page(browser, address):
    browser.get(f"{address}/index.html")
    size = "return document.querySelector('img[src*=demo]').naturalWidth"
    assert browser.execute_script(size) > 500
    doors = browser.find_elements("css selector", ".doors > li")
    assert len(doors) == 3
