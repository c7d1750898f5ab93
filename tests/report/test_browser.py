"""The report in a real browser: no errors, controls that work, nothing empty."""

import io

import numpy as np
import pytest


@pytest.fixture
def page(browser, strange_report):
    browser.get(strange_report.as_uri())
    yield browser
    assert browser.get_log("browser") == []  # no error of any sort, and no warning


def find(page, selector):
    return page.find_element("css selector", selector)


def all_of(page, selector):
    return page.find_elements("css selector", selector)


def row_texts(page):
    return [line.text for line in all_of(page, "#rows-table tbody tr")]


def type_into(page, text):
    box = find(page, "#row-search")
    box.clear()
    box.send_keys(text)


def choose(page, selector, value):
    from selenium.webdriver.support.select import Select

    Select(find(page, selector)).select_by_value(value)


def pixels(png):
    image = pytest.importorskip("matplotlib.image")
    return np.asarray(image.imread(io.BytesIO(png)))[..., :3]


def shades(image):
    """How many colors a picture has: an empty one has one."""
    steps = (image * 32).astype(int)
    return len(np.unique(steps.reshape(-1, 3), axis=0))


def test_it_opens_and_nothing_of_a_stranger_runs(page):
    assert page.title.startswith("Does learning the weights pay?")
    assert page.execute_script("return window.hacked") is None
    assert "Learning the weights" in find(page, "#verdict").text
    assert "<script>window.hacked=1</script>" in find(page, "#rows-table").text


PLACES = """
return [...document.querySelectorAll(".scroll > svg.chart")].map((chart) => {
  const box = chart.getBoundingClientRect();
  return [box.left, box.top, box.right, box.bottom].map(Math.round);
});
"""


def test_every_chart_is_drawn(page):
    page.set_window_size(1200, 9000)
    places = page.execute_script(PLACES)
    image = pixels(page.get_screenshot_as_png())
    page.set_window_size(1200, 1000)
    drawn = [box for box in places if box[2] > box[0]]  # not those behind a tab
    assert len(drawn) >= 8 and len(places) - len(drawn) == 1
    for left, top, right, bottom in drawn:
        assert bottom <= len(image)
        assert shades(image[top:bottom, left:right]) > 3


def test_a_row_is_found_by_its_name(page):
    assert len(row_texts(page)) == 25
    assert find(page, "#row-count").text == "25 of 178 rows shown"
    type_into(page, "script> 177")
    (only,) = row_texts(page)
    assert "</script> 177" in only
    assert find(page, "#row-count").text == "1 of 1 rows shown, 178 in all"
    assert len(all_of(page, "#places .mark.found")) == 1
    type_into(page, "no such row")
    assert row_texts(page) == []


def test_rows_are_filtered_ordered_and_more_are_shown(page, strange_study):
    table = strange_study.predictions_
    wrong = int(np.sum(table["true"] != table["predicted"]))
    choose(page, "#row-filter", "wrong")
    assert len(row_texts(page)) == min(wrong, 25)
    choose(page, "#row-filter", "all")
    parts = np.column_stack(list(strange_study.contributions_.values())).sum(axis=1)
    surest = strange_study.row_names_[table["row"][np.argmax(parts)]]
    choose(page, "#row-order", "sure")
    assert row_texts(page)[0].startswith(surest)
    find(page, "#row-more").click()
    assert len(row_texts(page)) == 125


def test_a_press_on_a_point_finds_its_row(page):
    point = find(page, "#places [data-row='5']")
    page.execute_script("arguments[0].dispatchEvent(new Event('click'))", point)
    assert find(page, "#row-search").get_attribute("value").endswith(" 5")
    assert any(text.split(" 5 ")[0].endswith("</script>") for text in row_texts(page))


def test_tabs_work_with_the_keyboard(page):
    tabs = all_of(page, "[role=tab]")
    panels = all_of(page, "[role=tabpanel]")
    assert [panel.is_displayed() for panel in panels] == [True, False]
    tabs[0].send_keys("\ue014")  # arrow to the right
    assert [panel.is_displayed() for panel in panels] == [False, True]
    assert page.switch_to.active_element == tabs[1]
    tabs[0].click()
    assert panels[0].is_displayed()


def test_boxes_show_and_hide_curves_and_classes(page):
    box = find(page, "#calibration input")
    curves = all_of(page, "#calibration g[data-series]")
    shown = {c.get_attribute("data-series"): c.is_displayed() for c in curves}
    assert list(shown.values()) == [True, True] + [False] * (len(shown) - 2)
    box.click()
    assert not curves[0].is_displayed()
    all_of(page, "#calibration input")[-1].click()
    assert curves[-1].is_displayed()
    class_box = find(page, "#places input")
    class_box.click()
    points = all_of(page, "#places [data-kind='0']")
    assert points and not any(point.is_displayed() for point in points)


def test_tables_are_sorted_by_a_press(page):
    head = all_of(page, "#methods th button")[1]
    head.click()
    texts = [cell.text for cell in all_of(page, "#methods tbody td:nth-child(2)")]
    values = [float(text.split()[0]) for text in texts]
    assert values == sorted(values, reverse=True)
    assert head.find_element("xpath", "..").get_attribute("aria-sort") == "descending"


def test_light_and_dark(page):
    button = find(page, "#theme")
    before = pixels(page.get_screenshot_as_png()).mean()
    button.click()
    after = pixels(page.get_screenshot_as_png()).mean()
    assert abs(before - after) > 0.5


def test_texts_have_contrast_in_both(page):
    measure = """
    const value = (name) => {
      const probe = document.createElement("i");
      probe.style.color = `var(${name})`;
      document.body.append(probe);
      const found = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
      probe.remove();
      return found;
    };
    const grounds = ["--paper", "--card", "--wash"];
    return [...grounds, "--ink", "--soft", "--accent", "--warn"].map(value);
    """

    def light(color):
        c = np.array(color) / 255.0
        c = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        return float(c @ [0.2126, 0.7152, 0.0722])

    for _ in range(2):
        paper, card, wash, *texts = (light(c) for c in page.execute_script(measure))
        for text in texts:
            for ground in (paper, card, wash):
                high, low = max(text, ground), min(text, ground)
                assert (high + 0.05) / (low + 0.05) >= 4.5
        find(page, "#theme").click()


def test_paper_shows_everything(page):
    page.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert all(part.get_attribute("open") for part in all_of(page, "details"))
    assert all(part.is_displayed() for part in all_of(page, "[role=tabpanel]"))


def test_a_narrow_window_has_no_sideways_scroll(page):
    page.set_window_size(500, 900)
    wide = page.execute_script(
        "return document.documentElement.scrollWidth > innerWidth"
    )
    page.set_window_size(1200, 1000)
    assert not wide
