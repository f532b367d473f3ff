"""What cells show, as a person should see it."""

from __future__ import annotations

import base64
import re

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
    live.run(show("image/gif", DOT))
    expect(last(notebook).locator("img.image")).to_have_attribute(
        "src", re.compile("^data:image/gif;base64,")
    )
    live.run("from IPython.display import JSON; JSON({'list': [1, {'deep': None}], 'text': '<b>'})")
    tree = last(notebook).locator(".json")
    expect(tree).to_contain_text("2 keys")
    expect(tree).to_contain_text('"<b>"')
    tree.get_by_text("list:").click()
    tree.get_by_text("1 key", exact=False).last.click()
    expect(tree).to_contain_text("deep: null")


def test_colours_and_errors_are_readable(notebook: Page, live: Session) -> None:
    live.run(r"print('\x1b[31mred\x1b[0m \x1b[1;38;5;33mbold\x1b[0m \x1b]0;title\x07plain\x1b[2K')")
    expect(last(notebook).locator(".fg-1")).to_have_text("red")
    expect(last(notebook).locator(".bold")).to_have_text("bold")
    assert last(notebook).locator(".text").inner_text() == "red bold plain"
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
