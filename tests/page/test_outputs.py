"""What cells show, as a person should see it."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from interpreter import Session
from tests.conftest import only
from tests.page.test_hostile_outputs import show

pytestmark = only("embedded")

VEGA = {
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
    "data": {"values": [{"a": "A", "b": 28}, {"a": "B", "b": 55}]},
    "mark": "bar",
    "encoding": {"x": {"field": "a", "type": "nominal"}, "y": {"field": "b", "type": "quantitative"}},
}
FULL_VEGA = {
    "$schema": "https://vega.github.io/schema/vega/v6.json",
    "width": 100,
    "height": 50,
    "data": [{"name": "table", "values": [{"x": 0, "y": 30}, {"x": 50, "y": 20}]}],
    "marks": [
        {
            "type": "rect",
            "from": {"data": "table"},
            "encode": {
                "enter": {
                    "x": {"field": "x"},
                    "width": {"value": 40},
                    "y": {"value": 0},
                    "height": {"field": "y"},
                }
            },
        }
    ],
}
PLOTLY = {
    "data": [{"type": "scatter", "x": [1, 2], "y": [2, 1]}],
    "layout": {"title": {"text": "A chart"}},
}
DOT = base64.b64encode(
    base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
).decode()


def last(page: Page) -> Locator:
    return page.locator(".cell").last


def framed(page: Page) -> Locator:
    """What is in the frame of the last cell."""
    return last(page).locator(".framed iframe").content_frame.locator("#app")


def test_rich_outputs_are_drawn(notebook: Page, live: Session) -> None:
    live.run("import pandas as pd; pd.DataFrame({'name': ['Ada', 'Bob'], 'n': [1, 2]})")
    expect(framed(notebook).locator("table tbody tr")).to_have_count(2)
    expect(framed(notebook)).to_contain_text("Ada")
    live.run(
        show("text/markdown", "# Title\n\n*soft* `a_$b$` and $x^2$\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    )
    expect(framed(notebook).locator("h1")).to_have_text("Title")
    expect(framed(notebook).locator("em")).to_have_text("soft")
    expect(framed(notebook).locator("code")).to_have_text("a_$b$")
    expect(framed(notebook).locator("math msup")).to_have_count(1)
    expect(framed(notebook).locator("td").last).to_have_text("2")
    live.run(show("text/latex", r"$$\int_0^1 x^2\,dx = \frac{1}{3}$$"))
    expect(framed(notebook).locator("math[display=block] mfrac")).to_have_count(1)
    live.run(
        f"from IPython.display import display\ndisplay({{'application/vnd.vegalite.v6+json': {VEGA!r}}}, raw=True)"
    )
    expect(framed(notebook).locator("svg [aria-roledescription=bar]")).to_have_count(2)
    live.run(f"display({{'application/vnd.plotly.v1+json': {PLOTLY!r}}}, raw=True)")
    expect(framed(notebook).locator(".scatterlayer .trace")).to_have_count(1)
    expect(framed(notebook)).to_contain_text("A chart")
    live.run(f"display({{'application/vnd.vega.v6+json': {FULL_VEGA!r}}}, raw=True)")
    expect(framed(notebook).locator("svg .mark-rect path")).to_have_count(2)
    live.run(show("image/gif", DOT))
    expect(last(notebook).locator("img.image")).to_have_attribute(
        "src", re.compile("^data:image/gif;base64,")
    )
    live.run("from IPython.display import JSON; JSON({'list': [1, {'deep': None}], 'text': '<b>'})")
    tree = last(notebook).locator(".json")
    expect(tree).to_contain_text("2 keys")
    expect(tree).to_contain_text('"<b>"')
    # At its end a cell gets longer, which may move what is being clicked on.
    expect(last(notebook)).to_have_attribute("data-status", "ok")
    tree.get_by_text("list:").click()
    tree.get_by_text("1 key", exact=False).last.click()
    expect(tree).to_contain_text("deep: null")


KINDS = {
    "histogram": ({"x": [1, 2, 2]}, ".barlayer .point"),
    "box": ({"y": [1, 2, 3]}, ".boxlayer .box"),
    "violin": ({"y": [1, 2, 3]}, ".violinlayer .violin"),
    "heatmap": ({"z": [[1, 2], [3, 4]]}, ".heatmaplayer image"),
    "sunburst": ({"labels": ["a", "b"], "parents": ["", "a"]}, ".sunburstlayer .slice"),
    "table": ({"header": {"values": ["a"]}, "cells": {"values": [[1]]}}, ".table"),
    "scatter3d": ({"x": [1], "y": [1], "z": [1]}, ".gl-container, .no-webgl"),
}


def test_charts_are_drawn_as_what_they_are_or_not_at_all(notebook: Page, live: Session) -> None:
    live.run("from IPython.display import display")
    for kind, (trace, drawn) in KINDS.items():
        figure = {"data": [{"type": kind, **trace}], "layout": {}}
        live.run(f"display({{'application/vnd.plotly.v1+json': {figure!r}}}, raw=True)")
        expect(framed(notebook).locator(drawn).first).to_be_attached()
    for kind in ("scattermapbox", "nothing-of-the-kind"):
        figure = {"data": [{"type": kind, "lat": [1], "lon": [1]}]}
        live.run(f"display({{'application/vnd.plotly.v1+json': {figure!r}}}, raw=True)")
        expect(framed(notebook)).to_contain_text(f"This chart cannot be shown here: {kind}")


def test_a_chart_keeps_its_own_colours(notebook: Page, live: Session) -> None:
    own = {**PLOTLY, "layout": {"paper_bgcolor": "rgb(1, 2, 3)", "font": {"color": "rgb(4, 5, 6)"}}}
    own["layout"]["title"] = {"text": "Mine"}
    live.run(
        "from IPython.display import display\n"
        f"display({{'application/vnd.plotly.v1+json': {own!r}}}, raw=True)"
    )
    expect(framed(notebook).locator(".main-svg").first).to_have_css("background-color", "rgb(1, 2, 3)")
    expect(framed(notebook).locator(".gtitle")).to_have_css("fill", "rgb(4, 5, 6)")


def test_a_large_picture_is_shown_and_can_be_saved(notebook: Page, live: Session) -> None:
    """More than a result keeps: it is shown as it comes, and found in the record after a reload."""
    live.run(
        "import numpy as np, io\nfrom PIL import Image as Pixels\nfrom IPython.display import Image\n"
        "noise = np.random.default_rng(1).integers(0, 255, (1400, 1400, 3), dtype='uint8')\n"
        "file = io.BytesIO(); Pixels.fromarray(noise).save(file, 'png')\n"
        "print(len(file.getvalue())); Image(file.getvalue())",
        timeout=120,
    )
    result = live.executions()[-1]
    assert "image/png of" in result.text
    size = int(result.text.split()[0])
    assert size > 5_000_000
    picture = last(notebook).locator("img.image")
    for _ in range(2):
        expect(picture).to_be_visible()
        notebook.wait_for_function("image => image.naturalWidth === 1400", arg=picture.element_handle())
        notebook.reload()
    expect(last(notebook)).to_contain_text("image/png of")
    with notebook.expect_download() as download:
        last(notebook).get_by_role("button", name="Download it").click()
    saved = Path(download.value.path()).read_bytes()
    assert len(saved) == size
    assert saved.startswith(b"\x89PNG")


def test_the_head_of_a_long_table_stays_while_it_is_scrolled(notebook: Page, live: Session) -> None:
    live.run(
        "import pandas as pd\nwith pd.option_context('display.max_rows', 500):\n"
        "    display(pd.DataFrame({f'column {i}': range(300) for i in range(3)}))"
    )
    head = framed(notebook).locator("thead th").last
    expect(head).to_be_visible()
    box = last(notebook).locator("iframe").bounding_box()
    assert box is not None
    assert box["height"] < 700
    notebook.wait_for_function(
        "frame => frame.getBoundingClientRect().height > 600",
        arg=last(notebook).locator("iframe").element_handle(),
    )
    framed(notebook).locator("tbody tr").nth(150).scroll_into_view_if_needed()
    assert framed(notebook).evaluate("() => scrollY") > 1000
    assert abs(head.evaluate("head => head.getBoundingClientRect().top")) < 3
    expect(framed(notebook).locator("tbody tr").nth(150)).to_be_visible()


def test_an_output_as_high_as_its_window_does_not_make_it_grow(notebook: Page, live: Session) -> None:
    live.run(show("text/html", "<div style='height: 100vh'>as high as can be</div>"))
    expect(framed(notebook)).to_contain_text("as high as can be")
    expect(last(notebook).locator("iframe")).to_have_css("height", "420px")
    live.run(show("text/html", "<p>short</p>"))
    expect(framed(notebook)).to_contain_text("short")
    expect(last(notebook).locator("iframe")).to_have_css("height", "22px")
    frames = notebook.locator("iframe")
    for _ in range(20):
        notebook.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
    expect(frames.first).to_have_css("height", "420px")
    expect(frames.last).to_have_css("height", "22px")


def test_colours_and_errors_are_readable(notebook: Page, live: Session) -> None:
    live.run(
        r"print('\x1b[?25l\x1b[31mred\x1b[0m \x1b[1;38;5;33mbold\x1b[0m \x1b]0;title\x07plain\x1b[2K', end='')"
        r"; print('\x1b(B\x1b7\x1b=\x1b[>4;1m\x1b[2 q\x1bPq#0\x1b\\\x1b8\x1b[?25h')"
    )
    expect(last(notebook).locator(".fg-1")).to_have_text("red")
    expect(last(notebook).locator(".bold")).to_have_text("bold")
    assert last(notebook).locator(".text").inner_text() == "red bold plain"
    live.run("x = 1\nprint((x)")
    expect(last(notebook).locator(".place")).to_have_text(re.compile(r"In \[\d+\], line 2 print\(\(x\)"))
    live.run("def deep(n):\n    if n: return deep(n - 1)\n    return 1 / n")
    live.run("x = 1\ndeep(30)")
    error = last(notebook).locator(".traceback")
    expect(error.locator(".exception")).to_have_text("ZeroDivisionError: division by zero")
    expect(error.locator(".place")).to_have_text(re.compile(r"In \[\d+\], line 3 return 1 / n"))
    expect(error.locator("pre")).to_be_hidden()
    error.get_by_text("Traceback", exact=True).click()
    expect(error.locator("pre")).to_contain_text("Traceback (most recent call last)")
    expect(last(notebook)).to_contain_text(re.compile(r"failed after [\d.]+ m?s"))


def test_shell_commands_are_in_the_history_too(notebook: Page, live: Session) -> None:
    live.shell("echo from the shell; exit 3")
    expect(last(notebook)).to_have_attribute("data-status", "error")
    expect(last(notebook).locator(".text")).to_have_text("from the shell")
    expect(last(notebook).locator(".source")).to_contain_text("echo from the shell")
