"""JupyterLab on a session as a person sees it, in a real browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.conftest import Gateway, only
from tests.lab.conftest import Lab, Labs

pytestmark = only("embedded")
expect.set_options(timeout=120_000)
LINES = "".join(f"line {n}\n" for n in range(20))
SLOWLY = """
import os, time
for n in range(20):
    print("line", n, flush=True)
    while n == 5 and not os.path.exists("go on"):
        time.sleep(0.05)
"""
"""Prints twenty lines, and after the sixth waits until it is told to go on."""


@contextmanager
def opened(browser: Browser, lab: Lab) -> Iterator[Page]:
    """The session's notebook in a page of its own; whatever goes wrong in it is a failure."""
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("response", lambda r: problems.append(f"{r.status} {r.url}") if r.status == 500 else None)
    page.set_default_timeout(120_000)
    page.goto(lab.url)
    ready(page)
    yield page
    page.close()
    assert problems == []


def ready(page: Page) -> None:
    """The notebook is there, and so is its kernel."""
    expect(page.locator(".jp-Notebook .jp-CodeCell").first).to_be_visible()
    expect(page.locator(".jp-Notebook-ExecutionIndicator, .jp-Toolbar-kernelName").first).to_be_visible()
    page.wait_for_selector(".jp-Toolbar-kernelName:has-text('Interpreter')")


def cells(page: Page) -> Locator:
    return page.locator(".jp-Notebook .jp-CodeCell")


def outputs(cell: Locator) -> Locator:
    return cell.locator(".jp-OutputArea-output")


def run(page: Page, code: str) -> Locator:
    """Types a cell into the last one and runs it."""
    editor = cells(page).last.locator(".cm-content")
    editor.click()
    page.keyboard.insert_text(code)
    at = cells(page).count() - 1
    page.keyboard.press("Shift+Enter")
    return cells(page).nth(at)


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Agent:
    """Uses the session as a program does."""

    def __init__(self, http: httpx.Client, session: str) -> None:
        self.http = http
        self.path = f"/v1/sessions/{session}"

    def run(self, code: str, **more: Any) -> dict[str, Any]:
        answer = self.http.post(f"{self.path}/executions", json={"code": code, **more})
        assert answer.status_code in (200, 201, 202), answer.text
        return dict(answer.json())

    def history(self) -> list[dict[str, Any]]:
        return list(self.http.get(f"{self.path}/executions").json()["executions"])

    def let_go_on(self) -> None:
        self.http.put(f"{self.path}/files/go%20on", content=b"")


@pytest.fixture
def agent(http: httpx.Client, session: str) -> Agent:
    return Agent(http, session)


def test_a_person_and_an_agent_work_in_one_notebook(
    labs: Labs, session: str, agent: Agent, browser: Browser
) -> None:
    agent.run("x = 40\nprint('made by an agent')")
    agent.run("import pandas as pd; pd.DataFrame({'column': [1, 2]})")
    lab = labs.open(session)
    with opened(browser, lab) as page:
        expect(cells(page)).to_have_count(2)
        expect(outputs(cells(page).first)).to_have_text(["made by an agent\n"])
        expect(cells(page).nth(1).locator("table")).to_contain_text("column")
        expect(cells(page).nth(1).locator(".jp-InputPrompt").first).to_have_text("[2]:")

        # An agent's cell arrives as it happens, output by output.
        running = agent.run("y = 1\n" + SLOWLY, wait=False)
        expect(cells(page)).to_have_count(3)
        expect(outputs(cells(page).nth(2))).to_contain_text("line 5")
        expect(cells(page).nth(2).locator(".jp-InputPrompt").first).to_have_text("[*]:")
        agent.let_go_on()
        expect(outputs(cells(page).nth(2))).to_have_text([LINES])
        expect(cells(page).nth(2).locator(".jp-InputPrompt").first).to_have_text("[3]:")
        assert running["id"] in [one["id"] for one in agent.history()]

        # What a person runs is in the agent's session, with its plot.
        page.get_by_text("Click to add a cell.").click()
        mine = run(page, "import matplotlib.pyplot as plt; plt.plot([x, x + 2]); plt.show()")
        expect(mine.locator(".jp-OutputArea-output img")).to_be_visible()
        mine = run(page, "open('made here.txt', 'w').write('yes')\nx + 2")
        expect(mine.locator(".jp-OutputArea-executeResult")).to_contain_text("42")
        assert agent.history()[-1]["text"] == "42"
        page.get_by_title("Refresh the file browser.").click()
        expect(page.locator(".jp-DirListing-item", has_text="made here.txt")).to_be_visible()

        # Outputs that come in pieces, take back what they said, or fail.
        agent.run(
            "from IPython.display import display, clear_output\n"
            "print('gone'); clear_output(); h = display('first', display_id=True)\n"
            "import sys; print('err', file=sys.stderr); h.update('second')\n1 / 0"
        )
        failed = outputs(cells(page).nth(5))
        expect(failed).to_have_count(3)
        expect(failed.nth(0)).to_have_text("'second'")
        expect(failed.nth(1)).to_have_text("err\n")
        expect(failed.nth(2)).to_contain_text("ZeroDivisionError")
        # The empty one to type in stays the last.
        expect(cells(page)).to_have_count(7)
        expect(cells(page).nth(6).locator(".jp-InputPrompt").first).to_have_text("[ ]:")

        # A cell of an agent is deleted, the notebook saved; it does not come back, the rest does.
        cells(page).first.locator(".jp-InputPrompt").first.click()
        page.keyboard.press("d")
        page.keyboard.press("d")
        expect(cells(page)).to_have_count(6)
        page.keyboard.press("Control+s")
        saved = f"{agent.path}/files/{session}.ipynb"
        until(lambda: agent.http.get(saved).status_code == 200)
        page.reload()
        ready(page)
        expect(cells(page)).to_have_count(6)
        expect(page.locator(".jp-Notebook")).not_to_contain_text("made by an agent")
        expect(cells(page).nth(2).locator("img")).to_be_visible()
        expect(outputs(cells(page).nth(1))).to_have_text([LINES])


@pytest.mark.parametrize("who", ["person", "agent"])
def test_twenty_lines_with_a_reload_in_between_are_twenty(
    labs: Labs, session: str, agent: Agent, browser: Browser, who: str
) -> None:
    lab = labs.open(session)
    with opened(browser, lab) as page:
        if who == "person":
            run(page, SLOWLY)
        else:
            agent.run(SLOWLY, wait=False)
        printing = page.locator(".jp-CodeCell", has_text="os.path.exists")
        expect(outputs(printing)).to_contain_text("line 5")
        page.reload()
        ready(page)
        expect(printing).to_have_count(1)
        expect(outputs(printing)).to_contain_text("line 5")
        expect(printing.locator(".jp-InputPrompt").first).to_have_text("[*]:")
        agent.let_go_on()
        expect(outputs(printing)).to_have_text([LINES])
        expect(printing.locator(".jp-InputPrompt").first).to_have_text("[1]:")
        page.reload()
        ready(page)
        expect(printing).to_have_count(1)
        expect(outputs(printing)).to_have_text([LINES])


def test_when_all_cells_are_run_and_one_fails_those_behind_it_are_not(
    labs: Labs, session: str, agent: Agent, browser: Browser
) -> None:
    with opened(browser, labs.open(session)) as page:
        run(page, "n = globals().get('n', 0) + 1\nassert n == 1, 'again'")
        for number in range(2, 12):
            run(page, f"print({number})")
        expect(outputs(cells(page).nth(10))).to_have_text(["11\n"])
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        expect(outputs(cells(page).first)).to_contain_text("AssertionError")
        expect(cells(page).nth(10).locator(".jp-InputPrompt").first).to_have_text("[ ]:")
        until(lambda: len(agent.history()) == 22 and agent.history()[-1]["status"] == "cancelled")
        assert {one["status"] for one in agent.history()[12:]} == {"cancelled"}
        expect(outputs(run(page, "print('and on')"))).to_have_text(["and on\n"])


def test_a_restart_that_was_asked_for_is_not_taken_for_a_crash(
    labs: Labs, session: str, browser: Browser
) -> None:
    with opened(browser, labs.open(session)) as page:
        expect(outputs(run(page, "x = 1; print('before')"))).to_have_text(["before\n"])
        page.get_by_role("menuitem", name="Kernel", exact=True).click()
        page.locator(".lm-Menu-item", has_text="Restart Kernel…").first.click()
        with page.expect_response(lambda answer: "/restart" in answer.url):
            page.locator(".jp-Dialog .jp-mod-accept").click()
        expect(outputs(run(page, "print('x' in globals())"))).to_have_text(["False\n"])
        expect(page.locator(".jp-Dialog")).to_have_count(0)


def test_a_large_picture_is_whole_however_often_the_page_is_loaded(
    labs: Labs, session: str, agent: Agent, browser: Browser
) -> None:
    picture = """
import struct, zlib, random
def part(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
width, height = 1000, 1000
rows = b"".join(b"\\0" + random.randbytes(3 * width) for _ in range(height))
png = b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
png += part(b"IDAT", zlib.compress(rows, 0)) + part(b"IEND", b"")
from IPython.display import Image
Image(png)
"""
    with opened(browser, labs.open(session)) as page:
        run(page, picture)
        until(agent.history)  # the agent's cell is the second
        agent.run(picture)
        saved = f"{agent.path}/files/{session}.ipynb"
        for _ in range(2):
            expect(page.locator(".jp-OutputArea-output img")).to_have_count(2)
            page.keyboard.press("Control+s")
            until(lambda: len(agent.http.get(saved).content) > 8_000_000)
            page.reload()
            ready(page)
        expect(page.locator(".jp-OutputArea-output img")).to_have_count(2)
        assert agent.history()[1]["truncated"], "the record has a part of it"


def test_what_runs_while_no_page_is_open_is_there_when_one_is(
    labs: Labs, session: str, agent: Agent, browser: Browser
) -> None:
    lab = labs.open(session)
    with opened(browser, lab) as page:
        printing = run(page, SLOWLY)
        expect(outputs(printing)).to_contain_text("line 5")
    agent.let_go_on()
    until(lambda: agent.history()[-1]["status"] == "ok")
    agent.run("print('later')")
    with opened(browser, lab) as page:
        expect(cells(page)).to_have_count(2)
        expect(outputs(cells(page).first)).to_have_text([LINES])
        expect(outputs(cells(page).nth(1))).to_have_text(["later\n"])


def test_a_killed_gateway_loses_and_doubles_nothing(
    own_gateway: Gateway, tmp_path: Path, browser: Browser
) -> None:
    own_gateway.start()
    lab = Lab(own_gateway, tmp_path)
    with own_gateway.client() as http, opened(browser, lab) as page:
        agent = Agent(http, lab.session)
        printing = run(page, SLOWLY)
        expect(outputs(printing)).to_contain_text("line 5")
        own_gateway.kill()
        own_gateway.start()
        agent.let_go_on()
        until(lambda: agent.history()[-1]["status"] == "ok")
        expect(outputs(printing)).to_have_text([LINES])
        expect(printing.locator(".jp-InputPrompt").first).to_have_text("[1]:")
        expect(outputs(run(page, "print('and on')"))).to_have_text(["and on\n"])
    lab.interrupt()


def test_scripts_of_a_sandbox_do_not_run_in_the_page(
    labs: Labs, session: str, agent: Agent, browser: Browser
) -> None:
    hostile = """
from IPython.display import HTML, Javascript, display
bad = "window.parent.reached = 1"
html = f"<b>shown</b><script>{bad}</script><img src=x onerror='{bad}'>"
display(HTML(html), Javascript(bad))
import json
cell = {"cell_type": "code", "id": "bad", "source": "written by hand", "execution_count": 1}
cell["metadata"] = {"trusted": True}
cell["outputs"] = [{"output_type": "display_data", "data": {"text/html": html}, "metadata": {}}]
notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
json.dump(notebook, open(NAME, "w"))
"""
    agent.run(hostile.replace("NAME", repr(f"{session}.ipynb")))
    with opened(browser, labs.open(session)) as page:
        expect(page.locator(".jp-Notebook b", has_text="shown")).to_have_count(2)
        agent.run(hostile.replace("NAME", "'another.ipynb'"))
        expect(page.locator(".jp-Notebook b", has_text="shown")).to_have_count(3)
        agent.run("print('the last')")
        expect(outputs(cells(page).last)).to_have_text(["the last\n"])
        assert page.evaluate("window.reached") is None


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """A server of somebody else, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_opening_a_notebook_asks_nothing_of_anybody_else(
    labs: Labs, session: str, agent: Agent, browser: Browser, elsewhere: tuple[str, list[str]]
) -> None:
    url, asked = elsewhere
    agent.run(f"""
from IPython.display import HTML, Markdown, display
loads = ["<img class=outside src={url}/html>", "<video src={url}/video></video>",
         "<div style='background: url({url}/style)'>styled</div>", "<img src={url}/set srcset={url}/2x>"]
display(HTML("<b>shown</b>" + "".join(loads)), Markdown("**shown** ![image]({url}/markdown)"))
""")
    with opened(browser, labs.open(session)) as page:
        refused: list[str] = []
        page.on("console", lambda said: refused.append(said.text))
        page.reload()
        ready(page)
        expect(page.locator(".jp-OutputArea-output b, .jp-OutputArea-output strong")).to_have_count(2)

        def decided() -> bool:
            page.title()  # lets the browser say what it has to
            both = (f"{url}/html", f"{url}/markdown")
            return bool(asked) or all(any(one in said for said in refused) for one in both)

        until(decided)
        assert asked == []
        assert all("Content Security Policy" in one for one in refused if url in one), refused
        # The same browser can reach it.
        other = browser.new_page()
        other.goto(f"{url}/reached")
        other.close()
        until(lambda: "/reached" in asked)
    assert {path for path in asked if path != "/favicon.ico"} == {"/reached"}


def test_a_terminal_is_one_of_the_session(
    labs: Labs, session: str, agent: Agent, browser: Browser
) -> None:
    agent.run("open('from a cell.txt', 'w').write('seen')")
    with opened(browser, labs.open(session)) as page:
        page.get_by_title("New Launcher").first.click()
        page.locator(".jp-LauncherCard", has_text="Terminal").click()
        page.locator(".jp-Terminal .xterm-screen").click()
        page.keyboard.type("cat 'from a cell.txt' > typed.txt; echo done >> typed.txt\n")
        typed = f"{agent.path}/files/typed.txt"
        until(lambda: agent.http.get(typed).text == "seendone\n")
        [terminal] = agent.http.get(f"{agent.path}/terminals").json()["terminals"]
        assert terminal["name"] == "1"
