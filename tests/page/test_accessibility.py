"""The page for everyone: no serious violation that axe-core finds, and usable at a phone's width."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from interpreter import Session
from tests.conftest import Gateway, only
from tests.page.conftest import WEB, new_context

pytestmark = only("embedded")

FRAMED = """
import pandas as pd
from IPython.display import Latex, Markdown
display(pd.DataFrame({'name': ['Ada', 'Bob'], 'n': [1, 2]}))
display(Markdown('# Title\\n\\n[A link](https://example.org), `code` and\\n\\n> a quotation'))
Latex('$$x^2$$')
"""
AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"


def check(page: Page, view: str) -> None:
    """Also what is in frames, which is asked for there: they are of no origin, and tell the page nothing.
    They show the page through, so each is checked on the ground that it has there."""
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for frame in page.frames:
        if frame != page.main_frame:
            if not frame.frame_element().is_visible():
                continue
            frame.evaluate("colour => { document.body.style.background = colour; }", ground)
        frame.evaluate(AXE.read_text())
        found = frame.evaluate("axe.run(document, {iframes: false})")
        serious = [
            f"{view}: {violation['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
            for violation in found["violations"]
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]
        assert not serious, "\n".join(serious)
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{view} is wider than the screen"


def drawn(page: Page) -> None:
    """All that is in frames is there."""
    expect(page.locator(".framed")).to_have_count(4)
    frames = page.locator(".framed iframe")
    for at, what in enumerate(("b", "table", "blockquote", "math")):
        page.locator(".framed").nth(at).scroll_into_view_if_needed()
        expect(frames.nth(at).content_frame.locator(what).first).to_be_attached()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_every_view_is_accessible(
    browser: Browser, gateway: Gateway, live: Session, scheme: str, width: int
) -> None:
    # The checker is a script, which the policy would not let in.
    context = new_context(
        browser, viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    page.goto(gateway.url)
    expect(page.get_by_label("Token")).to_be_visible()
    check(page, "sign in")
    context.request.post(f"{gateway.url}/login", data={"token": gateway.token})
    live.run(
        "import sys; print('out'); print('err', file=sys.stderr); print('\\x1b[31mred \\x1b[33myellow\\x1b[0m')"
    )
    live.run("x = 'a' * 300; x")
    live.run(
        "from IPython.display import HTML, JSON; display(HTML('<b>bold</b>')); JSON({'a': [1, 'b', None]})"
    )
    live.run(FRAMED)
    live.run("open('made.txt', 'w').write('x'); 1 / 0")
    with gateway.client() as http:
        asking = {"code": "input('Your name? ')", "allow_stdin": True, "wait": False, "timeout": 300}
        http.post(f"/v1/sessions/{live.id}/executions", json=asking)
    page.goto(gateway.url)
    expect(page.locator(f".session-row[data-id={live.id}]")).to_be_visible()
    check(page, "sessions")
    page.get_by_role("button", name="New session").first.click()
    page.get_by_text("Limits").click()
    check(page, "new session")
    page.goto(f"{gateway.url}/sessions/{live.id}")
    expect(page.locator(".cell")).to_have_count(6)
    drawn(page)
    expect(page.locator(".tok-string").first).to_be_visible()
    expect(page.get_by_label("Your name?")).to_be_visible()
    check(page, "notebook")
    page.get_by_role("button", name="More", exact=True).click()
    check(page, "menu")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    check(page, "question")
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Files").click()
    page.get_by_role("button", name="made.txt").first.click()
    expect(page.get_by_role("complementary")).to_contain_text("x")
    check(page, "files")
    page.get_by_role("tab", name="Terminal").click()
    expect(page.locator(".screen[data-state=open]")).to_be_visible()
    check(page, "terminal")
    page.goto(f"{gateway.url}{live.embed(seconds=600).url.removeprefix(gateway.url)}")
    expect(page.locator(".cell")).to_have_count(6)
    drawn(page)
    check(page, "embedded")
    context.close()
