"""Of very much text as much is shown as a page can, the rest is named, and all of it can be had."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from interpreter import Session
from tests.conftest import only
from tests.page.test_notebook import WAIT

pytestmark = only("embedded")

LONG = 20_000
CUT = "lines are cut after 8,192 characters"


def downloaded(page: Page, place: Locator) -> str:
    with page.expect_download() as download:
        place.get_by_role("link", name="Download all").first.click()
    return Path(download.value.path()).read_text()


@pytest.mark.parametrize(
    "code",
    [
        "'a' * 20_000",
        "print('a' * 20_000, end='')",
        "print('before')\nprint('a' * 20_000)\nprint('after')",
        "raise ValueError('\\n'.join(['a' * 20_000]))",
    ],
)
def test_a_line_that_is_cut_says_so_and_is_there_whole(notebook: Page, live: Session, code: str) -> None:
    live.run("'a' * 8_000")
    shown = notebook.locator(".cell").last
    expect(shown).to_contain_text("aaa")
    expect(shown.locator(".cut")).to_have_count(0)
    live.run(code)
    expect(notebook.locator(".cell")).to_have_count(2)
    for _ in range(2):
        if "raise" in code:
            shown.get_by_text("Traceback", exact=True).click()
        expect(shown.locator(".cut")).to_contain_text(CUT)
        assert "a" * LONG in downloaded(notebook, shown)
        assert "a" * LONG not in shown.inner_text()
        notebook.reload()


def test_a_line_is_cut_while_it_is_written(notebook: Page, live: Session) -> None:
    """Also one of so many characters at once that only its ends come to the page."""
    live.run(WAIT)
    live.submit("print('a' * 20_000, end='', flush=True); wait('go'); print('\\rb' * 100_000)")
    shown = notebook.locator(".cell").last
    expect(shown.locator(".cut")).to_contain_text(CUT)
    live.files.write("go", "")
    expect(shown).to_have_attribute("data-status", "ok")
    expect(shown.locator(".text")).to_contain_text("baaa")
    live.run("print('c' * 3_000_000)")
    expect(shown.locator(".text")).to_contain_text("cccc")
    expect(shown.locator(".cut")).to_contain_text(CUT)


def test_a_file_of_one_long_line_is_cut_and_says_so(notebook: Page, live: Session) -> None:
    live.files.write("line.txt", "a" * LONG)
    notebook.get_by_role("tab", name="Files").click()
    notebook.get_by_role("button", name="line.txt").first.click()
    preview = notebook.get_by_role("complementary")
    expect(preview.locator(".cut")).to_contain_text(CUT)
    assert downloaded(notebook, preview) == "a" * LONG


def test_heavy_outputs_of_a_cell_that_runs_are_bounded(notebook: Page, live: Session) -> None:
    """However few they are: the first and the last are shown, what was between them is counted."""
    live.run(WAIT + "from IPython.display import display")
    live.submit(
        "for i in range(30):\n"
        "    display({'text/plain': f'number {i}\\n' + ('x' * 99 + '\\n') * 14_000}, raw=True)\nwait('go')",
        timeout=300,
    )
    shown = notebook.locator(".cell").last
    expect(shown.locator(".text", has_text="number 29")).to_have_count(1)
    expect(shown).to_have_attribute("data-status", "running")
    expect(shown).to_contain_text("outputs are not shown")
    expect(shown.locator(".text", has_text="number 0")).to_have_count(1)
    expect(shown.locator(".text", has_text="number 15")).to_have_count(0)
    live.files.write("go", "")
    expect(shown).to_have_attribute("data-status", "ok")
