"""Files in and out by hand, and a terminal that real programs run in."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from interpreter import Session
from interpreter.models import SessionState
from tests.conftest import Gateway, only
from tests.e2e.test_restart_of_the_gateway import wait_for

pytestmark = only("embedded")

DROP = """([place, names]) => {
  const data = new DataTransfer();
  for (const name of names) data.items.add(new File([`dropped ${name}`], name, {type: "text/plain"}));
  const options = {dataTransfer: data, bubbles: true, cancelable: true};
  return ["dragover", "drop"].map((type) => place.dispatchEvent(new DragEvent(type, options))).some(Boolean);
}"""
"""Returns whether the browser is left to do with the files what it would."""

PASTE = """text => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  const options = {clipboardData: data, bubbles: true, cancelable: true};
  document.querySelector(".xterm-helper-textarea").dispatchEvent(new ClipboardEvent("paste", options));
}"""


def test_files_are_browsed_previewed_dropped_in_and_taken_out(
    page: Page, gateway: Gateway, live: Session, tmp_path: Path
) -> None:
    live.run(
        "import os; os.makedirs('data/deep'); import matplotlib.pyplot as plt\n"
        "open('data/table.csv', 'w').write('city,people\\n\"Bonn, am Rhein\",335975\\nUlm,128928\\n')\n"
        "plt.plot([1, 2]); plt.savefig('data/plot.png'); plt.close()\n"
        "open('notes.txt', 'w').write('first line\\n<b>second</b>\\n')"
    )
    page.goto(f"{gateway.url}/sessions/{live.id}#files")
    files = page.get_by_role("region", name="Files")
    preview = page.get_by_role("complementary")
    files.get_by_role("button", name="notes.txt").first.click()
    expect(preview).to_contain_text("<b>second</b>")
    files.get_by_role("button", name="data").first.click()
    files.get_by_role("button", name="table.csv").first.click()
    expect(preview.get_by_role("columnheader")).to_have_text(["city", "people"])
    expect(preview.get_by_role("row").nth(1)).to_have_text("Bonn, am Rhein335975")
    files.get_by_role("button", name="plot.png").first.click()
    image = preview.get_by_role("img", name="plot.png")
    expect(image).to_be_visible()
    page.wait_for_function("image => image.naturalWidth > 100", arg=image.element_handle())
    # Dropped files arrive in the folder that is open; so do chosen ones, however large.
    page.evaluate(DROP, [files.element_handle(), ["one.txt", "zwei ä #.txt"]])
    expect(files.get_by_role("button", name="zwei ä #.txt").first).to_be_visible()
    assert live.files.read("data/zwei ä #.txt").decode() == "dropped zwei ä #.txt"
    large = tmp_path / "large.bin"
    large.write_bytes(b"x" * 20_000_000)
    files.get_by_label("Files to upload").set_input_files(large)
    expect(files.get_by_role("button", name="large.bin").first).to_contain_text("20 MB")
    with page.expect_download() as download:
        files.get_by_role("link", name="Download one.txt").click()
    assert Path(download.value.path()).read_text() == "dropped one.txt"
    with page.expect_download() as download:
        files.get_by_role("link", name="Folder as zip").click()
    names = zipfile.ZipFile(io.BytesIO(Path(download.value.path()).read_bytes())).namelist()
    assert any(name.endswith("table.csv") for name in names)
    files.get_by_role("button", name="workspace").click()
    with page.expect_download() as download:
        files.get_by_role("link", name="All as zip").click()
    names = zipfile.ZipFile(io.BytesIO(Path(download.value.path()).read_bytes())).namelist()
    assert any(name.endswith("notes.txt") for name in names)
    assert any(name.endswith("data/table.csv") for name in names)
    files.get_by_role("button", name="data").first.click()
    # What a cell makes meanwhile appears by itself.
    live.run("open('data/new.txt', 'w').write('new')")
    expect(files.get_by_role("button", name="new.txt").first).to_be_visible()
    files.get_by_role("button", name="Delete one.txt").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(files.get_by_role("button", name="one.txt")).to_have_count(0)
    assert "data/one.txt" not in [entry.path for entry in live.files.list("data")]


def test_an_upload_says_how_far_it_is(page: Page, gateway: Gateway, live: Session) -> None:
    page.goto(f"{gateway.url}/sessions/{live.id}#files")
    files = page.get_by_role("region", name="Files")
    expect(files.get_by_text("Nothing here")).to_be_visible()
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 1_500_000}
    page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", slow)
    files.get_by_label("Files to upload").set_input_files(
        {"name": "slow.bin", "mimeType": "application/octet-stream", "buffer": b"x" * 6_000_000}
    )
    page.wait_for_function(
        "() => { const p = document.querySelector('.upload progress'); return p?.value > 0 && p.value < 1; }"
    )
    expect(files.get_by_role("button", name="slow.bin").first).to_contain_text("6.0 MB")
    expect(files.get_by_role("progressbar")).to_have_count(0)


def test_a_slow_answer_for_another_folder_is_not_shown(
    page: Page, gateway: Gateway, live: Session
) -> None:
    live.files.write("folder/inside.txt", "x")
    held: list[Route] = []
    page.goto(f"{gateway.url}/sessions/{live.id}#files")
    files = page.get_by_role("region", name="Files")
    expect(files.get_by_role("button", name="folder").first).to_be_visible()
    page.route("**/files/folder/", lambda route: held.append(route))
    files.get_by_role("button", name="folder").first.click()
    expect(files.get_by_role("button", name="..")).to_be_visible()
    files.get_by_role("button", name="workspace").click()
    expect(files.get_by_role("button", name="..")).to_have_count(0)
    with page.expect_response("**/files/folder/"):
        held[0].continue_()
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(files.get_by_role("button", name="folder").first).to_be_visible()
    expect(files.get_by_role("button", name="inside.txt")).to_have_count(0)


PIXELS = """
from PIL import Image
Image.new('RGB', ({0}, {0})).save('picture.png')
"""


def test_a_picture_is_shown_as_it_is_now(page: Page, gateway: Gateway, live: Session) -> None:
    live.run(PIXELS.format(20))
    page.goto(f"{gateway.url}/sessions/{live.id}")
    pictures = page.get_by_role("img", name="picture.png")

    def is_wide(at: int, width: int) -> None:
        expect(pictures.nth(at)).to_be_visible()
        image = pictures.nth(at).element_handle()
        page.wait_for_function(f"image => image.naturalWidth === {width}", arg=image)

    is_wide(0, 20)
    live.run(PIXELS.format(30))
    is_wide(1, 30)
    page.get_by_role("tab", name="Files").click()
    page.get_by_role("button", name="picture.png").first.click()
    preview = page.get_by_role("complementary").get_by_role("img")
    page.wait_for_function("image => image.naturalWidth === 30", arg=preview.element_handle())
    live.run(PIXELS.format(40))
    page.wait_for_function("image => image.naturalWidth === 40", arg=preview.element_handle())


def test_a_file_dropped_beside_its_place_does_not_replace_the_page(
    notebook: Page, live: Session
) -> None:
    place = notebook.locator("header.top").element_handle()
    assert notebook.evaluate(DROP, [place, ["beside.txt"]]) is False
    assert "beside.txt" not in [entry.path for entry in live.files.list()]


def test_vim_runs_in_the_terminal(page: Page, gateway: Gateway, live: Session) -> None:
    """A program that draws on the whole screen is used for real, through a reload and a resize."""
    page.goto(f"{gateway.url}/sessions/{live.id}#terminal")
    screen = page.locator(".xterm-rows")
    expect(page.locator(".screen[data-state=open]")).to_be_visible()
    expect(screen).to_contain_text("$")
    page.keyboard.type("vim.tiny -u NONE notes.txt\n")
    expect(screen).to_contain_text("~")
    page.keyboard.type("ihello from vim")
    expect(screen).to_contain_text("hello from vim")
    page.keyboard.press("Escape")
    page.reload()
    expect(page.locator(".screen[data-state=open]")).to_be_visible()
    expect(screen).to_contain_text("hello from vim")
    page.set_viewport_size({"width": 700, "height": 600})
    page.keyboard.type(":wq\n")
    expect(screen).to_contain_text("$")
    page.keyboard.type("stty size; cat notes.txt | tr a-z A-Z\n")
    expect(screen).to_contain_text("HELLO FROM VIM")
    assert live.files.read("notes.txt") == b"hello from vim\n"
    columns = int(screen.inner_text().split("stty size")[1].split("\n")[1].split()[1])
    assert 40 < columns < 90
    page.keyboard.type("exit\n")
    expect(page.locator(".terminals").get_by_role("status")).to_contain_text("This terminal is over.")
    page.get_by_role("button", name="Start anew").click()
    expect(page.locator(".screen[data-state=open]")).to_be_visible()
    page.get_by_role("button", name="New terminal").click()
    expect(page.get_by_role("button", name="Terminal 2")).to_have_attribute("aria-pressed", "true")
    expect(screen).to_contain_text("$")


def test_python_a_flood_and_a_large_paste_in_the_terminal(
    page: Page, gateway: Gateway, live: Session
) -> None:
    page.goto(f"{gateway.url}/sessions/{live.id}#terminal")
    screen = page.locator(".xterm-rows")
    expect(page.locator(".screen[data-state=open]")).to_be_visible()
    expect(screen).to_contain_text("$")
    page.keyboard.type("python3 -q\n")
    expect(screen).to_contain_text(">>>")
    page.keyboard.type("print('py' + 'thon', 6 * 7)\n")
    expect(screen).to_contain_text("python 42")
    page.keyboard.press("Control+D")
    expect(screen).to_contain_text("$")
    page.keyboard.type("clear; yes 0123456789\n")
    expect(screen).to_contain_text("0123456789")
    page.keyboard.press("Control+C")
    page.keyboard.type("clear; echo back-$((6*7))\n")
    expect(screen).to_contain_text("back-42")
    # Of a paste nothing is lost, wherever it is cut: every character here is two units of the page's.
    page.keyboard.type("stty raw -echo; echo ta''ke; head -c 600003 > pasted; stty sane\n")
    expect(screen).to_contain_text("take")
    page.evaluate(PASTE, "abc" + "😀" * 150_000)
    wait_for(lambda: len(live.files.read("pasted")) == 600_003, 60)
    assert live.files.read("pasted").decode() == "abc" + "😀" * 150_000


def test_a_terminal_says_that_its_session_is_paused_or_stopped(
    page: Page, gateway: Gateway, live: Session
) -> None:
    page.goto(f"{gateway.url}/sessions/{live.id}#terminal")
    screen = page.locator(".xterm-rows")
    word = page.locator(".terminals").get_by_role("status")
    expect(page.locator(".screen[data-state=open]")).to_be_visible()
    page.keyboard.type("echo kept-$((6*7))\n")
    expect(screen).to_contain_text("kept-42")
    live.pause()
    page.reload()
    expect(word).to_contain_text("This session is paused.")
    page.wait_for_timeout(1000)  # in which it is looked at again
    assert live.refresh().state is SessionState.paused, (
        "a page that comes back by itself does not wake it"
    )
    word.get_by_role("button", name="Resume").click()
    expect(screen).to_contain_text("kept-42")
    live.pause()
    page.reload()
    expect(page.locator(".screen[data-state=paused]")).to_be_visible()
    page.locator(".screen").click()
    page.keyboard.press("Enter")
    expect(page.locator(".screen[data-state=open]")).to_be_visible()
    # Nothing is on its way to the sandbox any more when that is stopped.
    page.keyboard.type("echo woken-$((6*7))\n")
    expect(screen).to_contain_text("woken-42")
    live.stop()
    expect(word).to_contain_text("This terminal is over.")
    page.get_by_role("button", name="Start anew").click()
    expect(word).to_contain_text("This session is stopped: it was stopped.")
    live.start()
    expect(screen).to_contain_text("[the terminal before this one is over: it was stopped]")
