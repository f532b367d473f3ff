"""Files that are put in by hand: nothing is replaced unasked, folders are taken apart, others' files show up."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from interpreter import Session
from tests.conftest import Gateway, only
from tests.page.test_files_and_terminal import DROP

pytestmark = only("embedded")


@pytest.fixture
def files(page: Page, gateway: Gateway, live: Session) -> Locator:
    page.goto(f"{gateway.url}/sessions/{live.id}#files")
    files = page.get_by_role("region", name="Files")
    expect(files.get_by_text("Nothing here")).to_be_visible()
    return files


def drag_in(page: Page, place: Locator, *paths: Path) -> None:
    """As if they came from the desktop: a page's own script cannot make a folder."""
    box = place.bounding_box()
    assert box is not None
    devtools = page.context.new_cdp_session(page)
    for type in ("dragEnter", "dragOver", "drop"):
        what = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        devtools.send("Input.dispatchDragEvent", {"type": type, "data": what, **at})


def test_nothing_is_replaced_unasked(page: Page, live: Session, files: Locator) -> None:
    live.files.write("one.txt", "mine")
    live.files.write("two.txt", "mine")
    dialog = page.get_by_role("dialog")
    page.evaluate(DROP, [files.element_handle(), ["one.txt", "two.txt", "three.txt"]])
    expect(dialog).to_contain_text("Replace one.txt?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_contain_text("Replace two.txt?")
    assert live.files.read("two.txt") == b"mine"
    dialog.get_by_role("button", name="Replace").click()
    expect(files.get_by_role("button", name="three.txt").first).to_be_visible()
    expect(files.get_by_role("progressbar")).to_have_count(0)
    found = {entry.name: live.files.read(str(entry.path)) for entry in live.files.list()}
    assert found == {
        "one.txt": b"mine",
        "two.txt": b"dropped two.txt",
        "three.txt": b"dropped three.txt",
    }


def test_a_folder_is_taken_with_all_that_is_in_it(
    page: Page, live: Session, files: Locator, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "top.txt").write_text("top")
    for i in range(120):  # more than a browser tells of at once
        (folder / "deep" / f"{i}.txt").write_text(str(i))
    (tmp_path / "beside.txt").write_text("beside")
    drag_in(page, files, folder, tmp_path / "beside.txt")
    expect(files.get_by_role("button", name="beside.txt").first).to_be_visible()
    expect(files.get_by_role("progressbar")).to_have_count(0)
    assert live.files.read("beside.txt") == b"beside"
    assert live.files.read("a folder/top.txt") == b"top"
    assert {entry.name for entry in live.files.list("a folder/deep")} == {f"{i}.txt" for i in range(120)}


def test_too_many_files_at_once_are_refused_with_a_way_to_put_them_in(
    page: Page, live: Session, files: Locator, tmp_path: Path
) -> None:
    for i in range(501):
        (tmp_path / f"{i}.txt").touch()
    drag_in(page, files, tmp_path)
    expect(page.get_by_text("interpreter cp -r")).to_be_visible()
    assert list(live.files.list()) == []


def test_what_others_put_in_shows_up(page: Page, live: Session, files: Locator) -> None:
    """When one asks for it, and when one comes back to the page."""
    live.files.write("asked.txt", "first")
    files.get_by_role("button", name="Look again").click()
    files.get_by_role("button", name="asked.txt").first.click()
    expect(page.get_by_role("complementary")).to_contain_text("first")
    live.files.write("asked.txt", "second")
    live.files.write("returned.txt", "x")
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(files.get_by_role("button", name="returned.txt").first).to_be_visible()
    expect(page.get_by_role("complementary")).to_contain_text("second")


def test_a_problem_of_a_preview_goes_with_it(page: Page, live: Session, files: Locator) -> None:
    live.files.write("here.txt", "what is in it")
    files.get_by_role("button", name="Look again").click()
    page.route("**/files/here.txt", lambda route: route.abort())
    files.get_by_role("button", name="here.txt").first.click()
    preview = page.get_by_role("complementary")
    expect(preview).to_contain_text("The gateway cannot be reached.")
    page.unroute("**/files/here.txt")
    files.get_by_role("button", name="Look again").click()
    expect(preview).to_contain_text("what is in it")
    expect(preview).not_to_contain_text("cannot be reached")
