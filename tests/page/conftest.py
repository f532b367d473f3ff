"""A real browser in front of a live gateway with real kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright

from interpreter import Client, Session
from tests.conftest import Gateway

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE = 60_000
"""Milliseconds that anything may take to appear: the machine may have other things to do."""
WEB = Path(__file__).parents[2] / "interpreter" / "gateway" / "web"

expect.set_options(timeout=PATIENCE)


def new_context(browser: Browser, **options: object) -> BrowserContext:
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 850}, **options})  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    return context


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """For this folder only: while it is there, no other event loop can run in this thread."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def client(gateway: Gateway) -> Client:
    return Client(gateway.url, gateway.token, by="agent")


@pytest.fixture
def live(client: Client) -> Iterator[Session]:
    """A session of the test's own."""
    with client.session() as session:
        yield session


@pytest.fixture
def context(browser: Browser, gateway: Gateway) -> Iterator[BrowserContext]:
    """A browser that is logged in. Whatever happens, nothing is asked of another host, and no script of
    the page's own fails."""
    context = new_context(browser)
    asked: list[Request] = []
    failed: list[str] = []
    context.on("request", lambda request: asked.append(request))
    context.on("weberror", lambda problem: failed.append(problem.error.stack or str(problem.error)))
    context.request.post(f"{gateway.url}/login", data={"token": gateway.token})
    yield context
    ours = (gateway.url, gateway.url.replace("http", "ws"), "data:", "blob:", "about:")
    elsewhere = [request for request in asked if not request.url.startswith(ours)]
    assert [request.url for request in elsewhere if request.failure != "csp"] == []
    context.close()
    assert [stack for stack in failed if "/assets/" in stack and "/assets/frame-" not in stack] == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def notebook(page: Page, gateway: Gateway, live: Session) -> Page:
    """The page, with the session's notebook open and ready to be typed into."""
    page.goto(f"{gateway.url}/sessions/{live.id}")
    expect(page.get_by_label("Code of the next cell")).to_be_focused()
    return page


Type = Callable[[str], None]


@pytest.fixture
def run(notebook: Page) -> Type:
    """Runs a cell as a person would: by writing it and pressing Shift-Enter."""

    def run(code: str) -> None:
        editor = notebook.get_by_label("Code of the next cell")
        editor.focus()
        notebook.keyboard.insert_text(code)
        notebook.keyboard.press("Shift+Enter")

    return run
