"""One session's outputs inside a page of somebody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, expect

from interpreter import Session
from tests.conftest import Gateway, only
from tests.page.conftest import new_context
from tests.page.test_hostile_outputs import show

pytestmark = only("embedded")


PAGE = """<h1>A chat</h1><iframe title="outputs" src="FRAME"></iframe><script>
  addEventListener("message", ({source, data}) => {
    const frame = document.querySelector("iframe");
    if (source === frame.contentWindow && data?.type === "interpreter:height") frame.height = data.height;
  });
</script>"""


class Elsewhere(BaseHTTPRequestHandler):
    """A page of another origin, with the frame in it."""

    frame = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.replace("FRAME", self.frame).encode())

    def log_message(self, *_: object) -> None:
        """Nothing: the test's output is for the test."""


@pytest.fixture
def elsewhere() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_outputs_are_live_and_read_only_in_a_page_of_another_origin(
    browser: Browser, gateway: Gateway, live: Session, elsewhere: ThreadingHTTPServer
) -> None:
    live.run("print('before')")
    Elsewhere.frame = live.embed(seconds=600).url
    context = new_context(browser)  # nobody is logged in here
    page = context.new_page()
    page.goto(f"http://localhost:{elsewhere.server_port}/")
    embedded = page.frame_locator("iframe[title=outputs]")
    expect(embedded.locator(".cell")).to_contain_text("before")
    live.submit("import time\nprint('while it runs')\ntime.sleep(0.5)\nprint('and after')")
    expect(embedded.locator(".cell").last).to_contain_text("while it runs")
    expect(embedded.locator(".cell").last).to_contain_text("and after")
    live.run(show("text/html", "<p id=inner>a table</p>"))
    expect(embedded.frame_locator(".framed iframe").locator("#inner")).to_have_text("a table")
    # Outputs only: no code, no editor, nothing to press.
    expect(embedded.get_by_text("time.sleep")).to_have_count(0)
    expect(embedded.get_by_role("textbox")).to_have_count(0)
    expect(embedded.get_by_role("button")).to_have_count(0)
    live.files.write("x", "")
    assert [e.status.value for e in live.executions()] == ["ok"] * 3
    context.close()


def test_one_execution_is_shown_as_high_as_it_is(
    browser: Browser, gateway: Gateway, live: Session, elsewhere: ThreadingHTTPServer
) -> None:
    """A piece for a chat: also while it runs, and with twenty others behind it."""
    wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
    live.run("print('another one')")
    one = live.submit(f"print('begun')\n{wait}print('over\\n' * 40)")
    others = [live.submit("print('another one')") for _ in range(21)]
    Elsewhere.frame = live.embed(seconds=600).url.replace("#", f"?execution={one.id}#theme=dark&")
    context = new_context(browser)
    page = context.new_page()
    page.goto(f"http://localhost:{elsewhere.server_port}/")
    embedded = page.frame_locator("iframe[title=outputs]")
    expect(embedded.locator(".text")).to_have_text("begun")
    live.files.write("go", "")
    live.execution(others[-1].id, wait=True)
    expect(embedded.locator(".text")).to_contain_text("over")
    page.wait_for_function("document.querySelector('iframe').clientHeight > 800")
    expect(embedded.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(embedded.locator(".text")).to_contain_text("over")
    expect(embedded.get_by_text("another one")).to_have_count(0)
    expect(embedded.locator(".cell")).to_have_count(1)
    context.close()


def test_an_embedded_view_whose_token_is_wrong_says_so(
    browser: Browser, gateway: Gateway, live: Session
) -> None:
    context = new_context(browser)
    page = context.new_page()
    page.goto(f"{gateway.url}/embed/{live.id}#token=wrong")
    expect(page.get_by_role("status")).to_contain_text("This view has ended")
    context.close()
