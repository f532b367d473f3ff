"""Kernels of a session: run all again, interrupt and restart, each where it is meant; who runs a cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from interpreter import Client, Session
from tests.conftest import Gateway, only
from tests.e2e.test_restart_of_the_gateway import wait_for
from tests.page.conftest import Type
from tests.page.test_notebook import LOOK, WAIT, cell

pytestmark = only("embedded")


def choose(page: Page, item: str) -> None:
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name=item).click()


def executions(gateway: Gateway, live: Session) -> list[dict[str, Any]]:
    with gateway.client() as http:
        found = http.get(f"/v1/sessions/{live.id}/executions").json()["executions"]
    return list(found)


def run_all_again(page: Page) -> None:
    choose(page, "Run all again")
    page.get_by_role("dialog").get_by_role("button", name="Restart").click()


def test_run_all_again_runs_what_worked_once_until_something_fails(
    notebook: Page, client: Client, gateway: Gateway
) -> None:
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# No code at all"},
        *(
            {"cell_type": "code", "id": id, "metadata": {}, "execution_count": None, "outputs": [],
             "source": source}
            for id, source in (
                ("b", "import os; x = 1"),
                ("c", "x += 1; x"),
                ("d", "if os.path.exists('fail'): raise ValueError"),
                ("e", "'the last'"),
            )
        ),
    ]  # fmt: skip
    given = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    live = client.create_session(notebook=given)
    live.run("1 / 0")
    live.run("x += 1; x")
    live.shell("touch fail")
    notebook.goto(f"{gateway.url}/sessions/{live.id}")
    shown = notebook.locator(".cell")
    expect(shown).to_have_count(7)

    run_all_again(notebook)
    expect(
        notebook.get_by_text("Cell 3 of 4 did not work, so the 1 behind it were not run.")
    ).to_be_visible()
    expect(shown).to_have_count(10)
    live.files.delete("fail")
    live.run("if os.path.exists('fail'): raise ValueError")
    run_all_again(notebook)
    expect(shown).to_have_count(15)
    expect(shown.last.locator(".results")).to_have_text("'the last'")
    expect(shown.nth(12).locator(".results")).to_have_text("2")
    live.delete()


def test_run_all_again_goes_on_where_nobody_looks(notebook: Page, live: Session) -> None:
    live.run(WAIT)
    live.files.write("go", "")
    live.run("wait('go')")
    live.run("'the last'")
    live.files.delete("go")
    expect(notebook.locator(".cell")).to_have_count(3)
    notebook.clock.install()
    run_all_again(notebook)
    word = notebook.get_by_text("Running all again: cell 2 of 3.")
    expect(word).to_be_visible()
    notebook.evaluate(LOOK, True)
    notebook.clock.fast_forward(31_000)
    live.files.write("go", "")
    expect(notebook.locator(".cell")).to_have_count(6)
    expect(notebook.locator(".cell").last).to_have_attribute("data-status", "ok")
    expect(notebook.get_by_text("Running all again")).to_have_count(0)
    # After that nobody waits for anything, and the connection is given back as ever.
    notebook.clock.fast_forward(31_000)
    expect(notebook.locator(".connection")).to_have_attribute("data-connection", "waiting")


def test_run_all_again_ends_when_its_page_is_left(
    notebook: Page, gateway: Gateway, live: Session
) -> None:
    live.run(WAIT)
    live.files.write("go", "")
    live.run("wait('go')")
    live.run("'the last'")
    live.files.delete("go")
    expect(notebook.locator(".cell")).to_have_count(3)
    run_all_again(notebook)
    expect(notebook.get_by_text("Running all again: cell 2 of 3.")).to_be_visible()
    notebook.get_by_role("link", name="Sessions").click()
    expect(notebook.get_by_role("heading", name="Sessions")).to_be_visible()
    live.files.write("go", "")
    wait_for(lambda: [one.status.value for one in live.executions()] == ["ok"] * 5, 60)
    live.run("'after'")
    codes = [one["code"] for one in executions(gateway, live)]
    assert codes[2:] == ["'the last'", WAIT, "wait('go')", "'after'"]


def test_every_kernel_is_interrupted_restarted_and_taken_away(
    notebook: Page, live: Session, tmp_path: Path
) -> None:
    with live.context("other") as other:
        live.run("here = 1")
        other.run("there = 1; import time")
        expect(notebook.locator(".composer select")).to_be_visible()
        other.submit("while True: time.sleep(0.1)")
        endless = cell(notebook, "while True")
        expect(endless).to_have_attribute("data-status", "running")
        expect(endless).to_contain_text("other")
        notebook.get_by_role("button", name="Interrupt").click()
        expect(endless).to_contain_text("KeyboardInterrupt")
        for context, code in (("default", "here = 1"), ("other", "there = 1; import time")):
            with notebook.expect_download() as download:
                choose(notebook, f"Download {context} as .ipynb")
            download.value.save_as(tmp_path / context)
            assert json.loads((tmp_path / context).read_text())["cells"][0]["source"] == code
        notebook.get_by_role("button", name="Restart").click()
        dialog = notebook.get_by_role("dialog")
        expect(dialog).to_contain_text("Restart the kernels of default, other?")
        dialog.get_by_role("button", name="Restart").click()
        expect(notebook.get_by_text("The kernels are new.")).to_be_visible()
        assert live.run("'here' in globals()").text == "False"
        assert other.run("'there' in globals()").text == "False"


def test_run_all_again_leaves_out_what_has_no_kernel_any_more(notebook: Page, live: Session) -> None:
    live.run("x = 1")
    with live.context("other") as other:
        other.run("y = 1")
    live.run("x += 1; x")
    expect(notebook.locator(".cell")).to_have_count(3)
    expect(notebook.locator(".composer select")).to_have_count(0)
    run_all_again(notebook)
    expect(notebook.locator(".cell")).to_have_count(5)
    expect(notebook.locator(".cell").last.locator(".results")).to_have_text("2")


def test_whoever_runs_a_cell_has_a_name(
    notebook: Page, gateway: Gateway, live: Session, run: Type
) -> None:
    def named(name: str, by: str, code: str) -> None:
        choose(notebook, "Your name")
        expect(notebook.get_by_label("Beside what you run")).to_be_focused()
        notebook.keyboard.press("Control+a")
        notebook.keyboard.insert_text(name or " ")
        notebook.keyboard.press("Enter")
        expect(notebook.get_by_role("dialog")).to_have_count(0)
        notebook.reload()  # it is kept
        run(code)
        expect(cell(notebook, code).locator(".by")).to_have_text(by)
        assert executions(gateway, live)[-1]["by"] == by

    named("Ada Lovelace", "Ada Lovelace", "'by Ada'")
    named("", "page", "'by nobody in particular'")
