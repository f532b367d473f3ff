"""Makes the pictures in docs/images: `python -m tests.page.screenshots`.

Each main view of the page, light and dark, on a desk and on a phone, of a live gateway with real kernels.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from interpreter import Client, Session
from tests.conftest import Gateway
from tests.page.conftest import CHROMIUM, FLAGS

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZES = {"desk": (1120, 900), "phone": (390, 800)}
PREPARE = """
from time import sleep

import numpy as np
import pandas as pd

rng = np.random.default_rng(7)
days = pd.date_range("2026-03-01", periods=120, name="day")
sales = pd.DataFrame({"north": 40 + rng.normal(0, 3, 120).cumsum(), "south": 55 + rng.normal(0, 3, 120).cumsum()}, index=days).round(1)
sales.to_csv("sales.csv")
sales.tail(4)
"""
PLOT = """
import matplotlib.pyplot as plt

ax = sales.plot(figsize=(7.5, 2.2), lw=1.6, color=["#2a6857", "#c77d2b"])
ax.spines[["top", "right"]].set_visible(False)
ax.set_xlabel("")
plt.show()
"""
WRONG = "sales.groupby('region').sum()"
FIRST_WRONG = "import pandas as pd; pd.DataFrame({'day': [1]}).groupby('region').sum()"
"""Loads what is needed to fail, which takes some seconds once; it is far above what is shown."""
FIT = """
for step in range(1, 4000):
    print(f"\\rfit {step:4d} of 4000   error {3.1 / step + 0.42:.3f}", end="")
    sleep(0.2)
"""
SCORES = """
import pandas as pd

scores = pd.DataFrame(
    {"rmse": [4.31, 3.87, 3.62], "mae": [3.4, 2.95, 2.81], "seconds": [0.2, 8.4, 21.7]},
    index=pd.Index(["linear", "random forest", "boosted trees"], name="model"),
)
scores.to_csv("scores.csv")
scores
"""
FORMULA = r"""
from IPython.display import JSON, Latex

Latex(r"$$\hat{\beta} = (X^\top X)^{-1} X^\top y$$")
"""
TREE = """
JSON({"seed": 7, "split": {"train": 0.8, "test": 0.2}, "features": ["day", "north", "south"]})
"""
QUESTION = """
chosen = input("Which model goes on? ")
"""
ELSEWHERE = """<!doctype html>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 720px; margin: 40px auto; padding: 0 18px; }
  iframe { width: 100%; border: 1px solid #8886; border-radius: 12px; margin-top: 12px; }
</style>
<title>A report</title>
<h1>Which model is best?</h1>
<p>The boosted trees are, by a little, and the random forest is there in less than half of the time:</p>
<iframe src="FRAME" sandbox="allow-scripts allow-same-origin"></iframe>
<script>
  addEventListener("message", ({source, data}) => {
    const frame = document.querySelector("iframe");
    if (source === frame.contentWindow && data?.type === "interpreter:height") frame.height = data.height;
  });
</script>"""
LONG = """
# Train for 500 epochs
from time import sleep
for epoch in range(1, 500):
    print(f"\\repoch {epoch:3d}   loss {2.4 / epoch + 0.11:.4f}", end="")
    sleep(0.2)
"""


def prepare(gateway: Gateway, client: Client, agent: Client) -> tuple[Session, Session]:
    """Some sessions as one would find them on a weekday: one that works, and one that has something to show."""
    for name, state in (("quarterly report", "paused"), ("etl check", "stopped"), ("scratch", "ready")):
        session = client.create_session(name=name)
        session.run("import pandas as pd")
        if state == "paused":
            session.pause()
        elif state == "stopped":
            session.stop()
    training = agent.create_session(name="model training", limits={"cpus": 2})
    training.submit(LONG.strip(), timeout=300)
    live = agent.create_session(name="sales analysis")
    live.run(FIRST_WRONG)
    live.run(PREPARE.strip())
    live.run(PLOT.strip())
    live.run(WRONG)
    live.submit(FIT.strip(), timeout=600)
    live.files.write("notes/findings.md", "# Findings\n\nThe north has caught up.\n")
    live.files.write("report.json", '{"rows": 120, "ok": true}')
    rich = agent.create_session(name="model report")
    for code in (SCORES, FORMULA, TREE):
        rich.run(code.strip())
    with gateway.client() as http:
        asking = {"code": QUESTION.strip(), "by": "research agent", "allow_stdin": True, "wait": False}
        http.post(f"/v1/sessions/{rich.id}/executions", json={**asking, "timeout": 600})
    return live, rich


def take(page: Page, name: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    page.screenshot(path=IMAGES / f"{name}.png", animations="disabled", caret="hide")
    print(name, (IMAGES / f"{name}.png").stat().st_size)


def begin_with(page: Page, code: str) -> None:
    """Scrolls to where a cell begins, below what is always there."""
    cell = page.locator(".cell", has=page.locator(".source", has_text=code))
    bar = "document.querySelector('.bar').offsetHeight"
    for _ in range(5):  # what comes into view meanwhile may be higher than it was
        cell.evaluate(f"cell => scrollBy(0, cell.getBoundingClientRect().top - {bar} - 16)")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def views(
    browser: Browser, gateway: Gateway, live: Session, rich: Session, size: str, scheme: str
) -> None:
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        is_mobile=size == "phone",
        has_touch=size == "phone",
    )  # type: ignore[arg-type]
    context.set_default_timeout(60_000)
    page = context.new_page()
    ending = f"{size}-{scheme}"
    page.goto(gateway.url)
    expect(page.get_by_label("Token")).to_be_visible()
    take(page, f"sign-in-{ending}")
    context.request.post(f"{gateway.url}/login", data={"token": gateway.token})
    page.goto(gateway.url)
    expect(page.locator(".session-row", has_text="model training")).to_contain_text("% CPU")
    take(page, f"sessions-{ending}")
    page.get_by_role("button", name="New session").click()
    page.get_by_label("Name").fill("churn model")
    page.get_by_text("Limits").click()
    expect(page.get_by_label("Memory, MB")).to_have_attribute("placeholder", "2048")
    take(page, f"new-session-{ending}")
    page.goto(f"{gateway.url}/sessions/{live.id}")
    expect(page.locator(".tok-keyword").first).to_be_visible()
    expect(page.frame_locator(".framed iframe").locator("table")).to_be_visible()
    expect(page.locator(".cell[data-status=running]")).to_contain_text("error")
    begin_with(page, "import matplotlib")
    take(page, f"notebook-{ending}")
    page.goto(f"{gateway.url}/sessions/{rich.id}")
    expect(page.get_by_label("Which model goes on?")).to_be_visible()
    for at, what in enumerate(("table", "math")):
        expect(page.locator(".framed iframe").nth(at).content_frame.locator(what)).to_be_visible()
    begin_with(page, "scores.to_csv")
    take(page, f"outputs-{ending}")
    elsewhere = ELSEWHERE.replace("FRAME", rich.embed(seconds=600).url)
    page.route("**/elsewhere", lambda route: route.fulfill(body=elsewhere, content_type="text/html"))
    page.goto(f"{gateway.url}/elsewhere")
    embedded = page.frame_locator("iframe")
    for at, what in enumerate(("table", "math")):
        expect(embedded.locator(".framed iframe").nth(at).content_frame.locator(what)).to_be_visible()
    page.wait_for_function("document.querySelector('iframe').clientHeight > 300")
    take(page, f"embedded-{ending}")
    page.goto(f"{gateway.url}/sessions/{live.id}#files")
    page.reload()
    page.get_by_role("button", name="sales.csv").first.click()
    expect(page.get_by_role("columnheader").first).to_be_visible()
    take(page, f"files-{ending}")
    page.goto(f"{gateway.url}/sessions/{live.id}#terminal")
    page.reload()
    screen = page.locator(".xterm-rows")
    expect(screen).to_contain_text("$")
    page.keyboard.press("Control+L")
    expect(screen).not_to_contain_text("is over")
    page.keyboard.type("ls --color=always; head -n 3 sales.csv; python3 --version\n")
    expect(screen).to_contain_text(re.compile(r"Python 3[\s\S]*\$"))
    page.evaluate("scrollTo(0, 0)")
    take(page, f"terminal-{ending}")
    with gateway.client() as http:
        http.delete(f"/v1/sessions/{live.id}/terminals/1")
    context.close()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="interpreter-screenshots-") as root:
        gateway = Gateway(Path(root) / "data", spares="1").start()
        try:
            person, agent = (
                Client(gateway.url, gateway.token, by=by) for by in ("ada", "research agent")
            )
            live, rich = prepare(gateway, person, agent)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                for size in SIZES:
                    for scheme in ("light", "dark"):
                        views(browser, gateway, live, rich, size, scheme)
                browser.close()
        finally:
            gateway.stop()


if __name__ == "__main__":
    sys.exit(main())
