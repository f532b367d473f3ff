"""The page's first view: from when a browser is sent to the gateway until the list of sessions is there.

A real Chromium, signed in, with an empty cache in each round, against a gateway with sessions to show.
The other side is what is promised: one second. The browser itself tells when the list was there.
"""

from __future__ import annotations

from playwright.sync_api import Browser, sync_playwright

from benchmarks import gateway
from benchmarks.figures import Figure, Target
from tests.page.conftest import CHROMIUM, FLAGS

SESSIONS = 5
SHOWN = """
new MutationObserver((_, watch) => {
  if (!document.querySelector(".session-row")) return;
  watch.disconnect();
  window.shown = new Promise((tell) =>
    requestAnimationFrame(() => setTimeout(() => tell(performance.now()))));
}).observe(document, {childList: true, subtree: true});
"""


def measure(quick: bool) -> list[Figure]:
    rounds = 2 if quick else 15
    with gateway.running() as us, sync_playwright() as playwright:
        for _ in range(SESSIONS):
            us.create()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        # The first round only warms up.
        took = [_first_view(browser, us.url, us.token) for _ in range(rounds + 1)][1:]
        browser.close()
    note = f"navigation until {SESSIONS} sessions are listed, nothing cached"
    return [Figure("page, first view", "s", took, [1.0] * rounds, "one second", Target("≤", 1.0), note)]


def _first_view(browser: Browser, url: str, token: str) -> float:
    """Seconds, by the clock that begins when the browser starts to fetch the document."""
    context = browser.new_context()
    context.request.post(f"{url}/login", data={"token": token})
    page = context.new_page()
    page.add_init_script(SHOWN)
    page.goto(url)
    page.locator(".session-row").first.wait_for()
    milliseconds = float(page.evaluate("window.shown"))
    context.close()
    return milliseconds / 1000
