"""A session as a live notebook: everyone's cells, every output once, whatever happens to the page."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect

from interpreter import Client, Session
from tests.conftest import Gateway, only
from tests.page.broken_network import BrokenNetwork
from tests.page.conftest import Type, new_context

pytestmark = only("embedded")

LOOK = """hidden => {
  Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true});
  document.dispatchEvent(new Event('visibilitychange'));
}"""
"""Whether the page is hidden from now on, for all that it can see."""
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
WAIT = "import os, time\ndef wait(name):\n    while not os.path.exists(name): time.sleep(0.02)\n"


def cell(page: Page, text: str) -> Locator:
    return page.locator(".cell", has=page.locator(".source", has_text=text))


def printed(found: Locator) -> list[str]:
    return "\n".join(found.locator("pre.text").all_inner_texts()).split("\n")


def test_an_agents_cells_appear_and_stream_as_they_run(notebook: Page, live: Session, run: Type) -> None:
    live.run(WAIT)
    begun = live.submit("print('begun'); wait('go'); print('over')")
    theirs = cell(notebook, "print('begun')")
    expect(theirs.locator(".text")).to_have_text("begun")
    expect(theirs).to_have_attribute("data-status", "running")
    expect(theirs).to_contain_text("agent")
    # A person's cell waits behind it, and says whose it is, too.
    run("mine = 6 * 7; mine")
    mine = cell(notebook, "mine = 6 * 7")
    expect(mine).to_have_attribute("data-status", "queued")
    live.files.write("go", "")
    expect(theirs).to_have_attribute("data-status", "ok")
    assert printed(theirs) == ["begun", "over"]
    expect(mine).to_contain_text("42")
    expect(mine).to_contain_text("page")
    expect(mine).to_contain_text(re.compile(r"\d+ ms|\d\.\d s"))
    assert live.execution(begun.id).status.value == "ok"
    assert live.run("mine").text == "42", "it is one kernel"


def test_a_reload_in_the_middle_of_a_cell_shows_every_line_once(notebook: Page, live: Session) -> None:
    live.run(WAIT)
    lines = [f"line {i}" for i in range(20)]
    live.submit("for i in range(20):\n    print('line', i)\n    if i == 9: wait('go')")
    found = cell(notebook, "for i in range(20)")
    expect(found.locator(".text")).to_contain_text("line 9")
    for _ in range(2):
        notebook.reload()
        expect(found.locator(".text")).to_contain_text("line 9")
        assert printed(found) == lines[:10]
    live.files.write("go", "")
    expect(found).to_have_attribute("data-status", "ok")
    assert printed(found) == lines
    notebook.reload()
    expect(found.locator(".text")).to_contain_text("line 19")
    assert printed(found) == lines


def test_a_lost_network_loses_and_doubles_nothing(
    notebook: Page, context: BrowserContext, live: Session
) -> None:
    """The page is cut off while a cell prints; what came meanwhile is there afterwards, once."""
    live.run(WAIT)
    lines = [f"line {i}" for i in range(20)]
    live.submit("for i in range(20):\n    print('line', i)\n    if i in (4, 14): wait(f'go{i}')")
    found = cell(notebook, "for i in range(20)")
    expect(found.locator(".text")).to_contain_text("line 4")
    context.set_offline(True)
    expect(notebook.get_by_text("Reconnecting …")).to_be_visible()
    live.files.write("go4", "")
    other = live.submit("'one more, by the agent'")
    context.set_offline(False)
    expect(found.locator(".text")).to_contain_text("line 14")
    assert printed(found) == lines[:15]
    context.set_offline(True)
    live.files.write("go14", "")
    live.execution(other.id, wait=True)
    context.set_offline(False)
    expect(found).to_have_attribute("data-status", "ok")
    assert printed(found) == lines
    expect(cell(notebook, "one more")).to_contain_text("'one more, by the agent'")
    expect(notebook.locator(".cell")).to_have_count(3)


def test_connections_that_break_in_the_middle_lose_and_double_nothing(
    browser: Browser, gateway: Gateway, live: Session
) -> None:
    network = BrokenNetwork(gateway.url)
    context = new_context(browser)
    context.request.post(f"{network.url}/login", data={"token": gateway.token})
    page = context.new_page()
    page.goto(f"{network.url}/sessions/{live.id}")
    live.run(WAIT)
    live.submit(
        "for i in range(180):\n    print('line', i, '.' * 300)\n    if i % 30 == 29: wait(f'go{i}')",
        timeout=300,
    )
    found = cell(page, "for i in range(180)")
    for i in range(29, 180, 30):
        network.drop()
        expect(found.locator(".text")).to_contain_text(f"line {i} ")
        live.files.write(f"go{i}", "")
        network.drop()
    expect(found).to_have_attribute("data-status", "ok")
    assert [line.split(" .")[0] for line in printed(found)] == [f"line {i}" for i in range(180)]
    expect(page.locator(".cell")).to_have_count(2)
    context.close()
    network.close()


def test_a_killed_gateway_loses_and_doubles_nothing(own_gateway: Gateway, browser: Browser) -> None:
    own_gateway.start()
    context = new_context(browser)
    client = Client(own_gateway.url, own_gateway.token)
    live = client.create_session()
    context.request.post(f"{own_gateway.url}/login", data={"token": own_gateway.token})
    page = context.new_page()
    page.goto(f"{own_gateway.url}/sessions/{live.id}")
    live.run(WAIT)
    live.submit("for i in range(20):\n    print('line', i)\n    if i in (4, 14): wait(f'go{i}')")
    found = cell(page, "for i in range(20)")
    expect(found.locator(".text")).to_contain_text("line 4")
    live.files.write("go4", "")
    own_gateway.kill()
    expect(page.get_by_text("Reconnecting …")).to_be_visible()
    own_gateway.start()
    expect(found.locator(".text")).to_contain_text("line 14")
    live.files.write("go14", "")
    expect(found).to_have_attribute("data-status", "ok")
    assert printed(found) == [f"line {i}" for i in range(20)]
    expect(page.locator(".cell")).to_have_count(2)
    context.close()


def test_a_long_history_opens_at_its_end_and_is_read_back_on_demand(
    page: Page, gateway: Gateway, live: Session
) -> None:
    sent = [live.submit(f"'number {i}'") for i in range(50)]
    live.execution(sent[-1].id, wait=True)
    page.goto(f"{gateway.url}/sessions/{live.id}")
    cells = page.locator(".cell")
    expect(cells.last).to_contain_text("number 49")
    assert cells.count() == 20, "and not all of them"
    page.get_by_role("button", name="Show earlier cells").click()
    page.wait_for_function("document.querySelectorAll('.cell').length >= 40")
    # The rest comes by itself when one scrolls to the top.
    page.wait_for_function(
        "() => document.querySelectorAll('.cell').length === 50 || void scrollTo(0, 1)", polling=200
    )
    codes = [code.strip() for code in page.locator(".cell .source").all_inner_texts()]
    assert codes == [f"'number {i}'" for i in range(50)]
    expect(page.get_by_role("button", name="Show earlier cells")).to_have_count(0)


def test_what_comes_after_a_cell_has_ended_is_shown_too(notebook: Page, live: Session) -> None:
    live.run(
        WAIT + "import threading\nfrom IPython.display import display\n"
        "shown = display('first', display_id=True)\n"
        "def late():\n    wait('go'); print('late')\n"
        "threading.Thread(target=late).start()"
    )
    found = cell(notebook, "threading")
    expect(found).to_have_attribute("data-status", "ok")
    expect(found.locator(".results")).to_have_text("'first'")
    live.files.write("go", "")
    expect(found.locator(".text", has_text="late")).to_have_count(1)
    live.run("shown.update('second')")
    expect(found.locator(".results")).to_have_text("'second'late")


def test_progress_bars_clear_output_and_updates(notebook: Page, live: Session, run: Type) -> None:
    run(
        WAIT + "from IPython.display import clear_output, display\n"
        "for i in range(101):\n    print(f'\\r{i:3d}% done', end='')\n"
        "print()\nwait('a')\n"
        "clear_output(); print('cleared'); shown = display('old', display_id=True); wait('b')\n"
        "shown.update('new'); clear_output(wait=True); print('last')"
    )
    found = cell(notebook, "clear_output")
    expect(found.locator(".text")).to_contain_text("100% done")
    assert printed(found)[0] == "100% done"
    live.files.write("a", "")
    expect(found).to_contain_text("'old'")
    expect(found).not_to_contain_text("100%")
    live.files.write("b", "")
    expect(found).to_have_attribute("data-status", "ok")
    assert printed(found) == ["last"]


def test_input_is_asked_for_and_answered(notebook: Page, run: Type) -> None:
    run(
        "from getpass import getpass\nname = input('Who? ')\nword = getpass('Secret: ')\n(name, len(word))"
    )
    field = notebook.get_by_label("Who?")
    expect(field).to_be_focused()
    notebook.reload()  # the question is still there
    expect(field).to_be_focused()
    notebook.keyboard.type("Ada")
    notebook.keyboard.press("Enter")
    secret = notebook.get_by_label("Secret:")
    expect(secret).to_have_attribute("type", "password")
    secret.fill("hunter2")
    secret.press("Enter")
    expect(cell(notebook, "getpass")).to_contain_text("('Ada', 7)")
    expect(notebook.get_by_text("hunter2")).to_have_count(0)


def test_a_question_does_not_take_what_is_typed_for_something_else(
    notebook: Page, live: Session, gateway: Gateway
) -> None:
    editor = notebook.get_by_label("Code of the next cell")
    notebook.keyboard.type("half of a")
    with gateway.client() as http:
        asking = {"code": "input('Who? ')", "allow_stdin": True, "wait": False, "timeout": 300}
        http.post(f"/v1/sessions/{live.id}/executions", json=asking)
    expect(notebook.get_by_label("Who?")).to_be_visible()
    notebook.keyboard.type(" thought")
    expect(editor).to_have_text("half of a thought")
    expect(notebook.get_by_label("Who?")).to_have_value("")


def test_what_is_being_written_is_not_lost_to_earlier_code(
    notebook: Page, live: Session, run: Type
) -> None:
    editor = notebook.get_by_label("Code of the next cell")
    run("'an earlier one'")
    expect(notebook.locator(".cell")).to_have_count(1)
    notebook.keyboard.type("unfinished")
    notebook.keyboard.press("Home")
    notebook.keyboard.press("ArrowUp")
    expect(editor).to_have_text("'an earlier one'")
    notebook.keyboard.press("End")
    notebook.keyboard.press("ArrowDown")
    expect(editor).to_have_text("unfinished")
    notebook.get_by_role("button", name="Edit a copy").click()
    notebook.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(editor).to_have_text("unfinished")
    notebook.get_by_role("button", name="Edit a copy").click()
    notebook.get_by_role("dialog").get_by_role("button", name="Replace").click()
    expect(editor).to_have_text("'an earlier one'")


def test_a_tab_that_nobody_looks_at_gives_its_connection_back(notebook: Page, live: Session) -> None:
    notebook.clock.install()
    connection = notebook.locator(".connection")
    live.run("print('seen')")
    expect(notebook.locator(".cell").last).to_contain_text("seen")
    notebook.evaluate(LOOK, True)
    notebook.clock.fast_forward(31_000)
    expect(connection).to_have_attribute("data-connection", "waiting")
    live.run("print('meanwhile')")
    expect(notebook.locator(".cell")).to_have_count(1)
    notebook.evaluate(LOOK, False)
    expect(notebook.locator(".cell").last).to_contain_text("meanwhile")
    expect(connection).to_have_attribute("data-connection", "live")
    expect(notebook.locator(".cell")).to_have_count(2)


def test_how_long_a_cell_runs_counts_from_its_start(page: Page, gateway: Gateway, live: Session) -> None:
    """Also for who comes later, and whose clock is another one."""
    live.run(WAIT)
    live.submit("wait('go')")
    began = datetime.now(UTC) - timedelta(minutes=5)

    def earlier(route: Route) -> None:
        listed = route.fetch().json()
        for execution in listed["executions"]:
            execution["started_at"] = began.isoformat()
        route.fulfill(json=listed)

    page.route("**/executions?newest=true*", earlier)
    page.clock.install(time=time.time() + 7200)
    page.goto(f"{gateway.url}/sessions/{live.id}")
    expect(cell(page, "wait('go')").locator(".took")).to_contain_text(re.compile("running, [56] min"))
    live.files.write("go", "")


def test_who_reads_comes_back_to_the_same_place(notebook: Page, live: Session) -> None:
    for i in range(12):
        live.run(f"print('line {i}\\n' * 12)")
    expect(notebook.locator(".cell").last).to_contain_text("line 11")
    read = cell(notebook, "'line 5")
    top = "cell => cell.getBoundingClientRect().top"

    def elsewhere_and_back() -> None:
        notebook.get_by_role("tab", name="Files").click()
        expect(notebook.get_by_role("region", name="Files")).to_be_visible()
        live.run("print('meanwhile')")
        notebook.evaluate(DRAWN)
        notebook.get_by_role("tab", name="Notebook").click()
        expect(read).to_be_visible()
        notebook.evaluate(DRAWN)

    notebook.evaluate(f"cell => scrollBy(0, ({top})(cell) - 200)", read.element_handle())
    notebook.evaluate(DRAWN)
    assert abs(read.evaluate(top) - 200) < 2
    elsewhere_and_back()
    assert abs(read.evaluate(top) - 200) < 2
    # Who was at the end is there again.
    notebook.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    notebook.evaluate(DRAWN)
    elsewhere_and_back()
    expect(notebook.get_by_label("Code of the next cell")).to_be_in_viewport()


def test_the_kernel_completes_and_explains(notebook: Page, live: Session) -> None:
    live.run("greeting_text = 'hé😀'\ndef helper(a, b=2):\n    'Helps with 😀 things.'")
    # Characters beyond the first plane count one for the kernel and two for the browser.
    notebook.keyboard.insert_text("'😀😀'; greeting_t")
    notebook.keyboard.press("Tab")
    expect(notebook.get_by_role("option", name="greeting_text")).to_be_visible()
    notebook.keyboard.press("Enter")
    expect(notebook.get_by_label("Code of the next cell")).to_have_text("'😀😀'; greeting_text")
    notebook.keyboard.type(".upp")
    notebook.keyboard.press("Tab")
    expect(notebook.get_by_role("option", name="upper")).to_be_visible()
    notebook.keyboard.press("Tab")
    expect(notebook.get_by_label("Code of the next cell")).to_contain_text("greeting_text.upper")
    notebook.keyboard.press("Control+Enter")
    expect(notebook.locator(".cell").last).to_contain_text("<function str.upper")
    expect(notebook.get_by_label("Code of the next cell")).to_contain_text(".upper")
    notebook.keyboard.press("Control+a")
    notebook.keyboard.insert_text("helper")
    notebook.keyboard.press("Shift+Tab")
    expect(notebook.locator(".tip")).to_contain_text("Helps with 😀 things.")
    expect(notebook.locator(".tip")).to_contain_text("(a, b=2)")


def test_interrupt_restart_take_it_away_and_stop(
    notebook: Page, live: Session, run: Type, tmp_path: Path
) -> None:
    run("import time\ntry:\n    count\nexcept NameError:\n    count = 0\ncount += 1; count")
    expect(notebook.locator(".cell").last).to_contain_text("1")
    run("while True: time.sleep(0.1)")
    expect(cell(notebook, "while True")).to_have_attribute("data-status", "running")
    notebook.get_by_role("button", name="Interrupt").click()
    expect(cell(notebook, "while True")).to_contain_text("KeyboardInterrupt")
    with notebook.expect_download() as download:
        notebook.get_by_role("button", name="More", exact=True).click()
        notebook.get_by_role("menuitem", name="Download as .ipynb").click()
    download.value.save_as(tmp_path / "it.ipynb")
    saved = json.loads((tmp_path / "it.ipynb").read_text())
    assert [c["source"] for c in saved["cells"]][-1] == "while True: time.sleep(0.1)"
    notebook.get_by_role("button", name="Restart").click()
    notebook.get_by_role("dialog").get_by_role("button", name="Restart").click()
    expect(notebook.get_by_text("The kernel is new.")).to_be_visible()
    run("'count' in globals()")
    expect(notebook.locator(".cell").last).to_contain_text("False")
    notebook.get_by_role("button", name="More", exact=True).click()
    notebook.get_by_role("menuitem", name="Open in JupyterLab").click()
    live.update(name="a name that others may have, too")
    expect(notebook.get_by_role("heading", name="a name that others")).to_be_visible()
    expect(notebook.get_by_role("dialog")).to_contain_text(f"interpreter lab {live.id}")
    notebook.get_by_role("button", name="Close").click()
    notebook.get_by_role("button", name="More", exact=True).click()
    notebook.get_by_role("menuitem", name="Stop").click()
    notebook.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert live.run("1").text == "1"
    notebook.get_by_role("button", name="More", exact=True).click()
    notebook.get_by_role("menuitem", name="Stop").click()
    notebook.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(notebook.get_by_role("button", name="Start", exact=True)).to_be_visible()


def test_the_keyboard_alone_is_enough(page: Page, gateway: Gateway, client: Client) -> None:
    """From the list into a session, a cell, its tabs and back, with no mouse."""
    session = client.create_session(name="keys")
    page.goto(gateway.url)
    expect(page.get_by_role("link", name="keys")).to_be_visible()

    def tab_to(target: Locator, back: bool = False) -> None:
        for _ in range(60):
            page.keyboard.press("Shift+Tab" if back else "Tab")
            if target.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"the keyboard does not reach {target}")

    tab_to(page.get_by_role("link", name="keys"))
    page.keyboard.press("Enter")
    editor = page.get_by_label("Code of the next cell")
    expect(editor).to_be_focused()
    page.keyboard.type("6 * 7")
    page.keyboard.press("Shift+Enter")
    expect(page.locator(".cell")).to_contain_text("42")
    # Tab writes in the editor; after Escape it leads out of it, either way.
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(editor).not_to_be_focused()
    tab_to(page.get_by_role("tab", name="Notebook"), back=True)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Files")).to_have_attribute("aria-selected", "true")
    tab_to(page.get_by_role("button", name="Upload"))
    tab_to(page.get_by_role("tab", name="Files"), back=True)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Terminal")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()
    page.keyboard.press("Control+Shift+Enter")
    tab_to(page.get_by_role("tab", name="Terminal"), back=True)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Notebook")).to_be_focused()
    tab_to(page.get_by_role("button", name="More", exact=True))
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("menuitem", name="Delete")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("dialog").get_by_role("button", name="Delete")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    assert session.id not in [found.id for found in client.sessions()]
    tab_to(page.get_by_role("button", name="New session").first)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type("by keys")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="by keys")).to_be_visible()
    (made,) = client.sessions(name="by keys")
    client.session(made.id).delete()
