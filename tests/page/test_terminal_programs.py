"""Real programs in the page's terminal: on the whole screen, in parallel, and of a life of their own."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from interpreter import Session
from tests.conftest import Gateway, only
from tests.e2e.test_shell_commands import MAKEFILE
from tests.e2e.test_terminals import DAEMON

pytestmark = only("embedded")


def test_top_and_less_and_a_parallel_build_and_a_daemon_in_the_terminal(
    page: Page, gateway: Gateway, live: Session
) -> None:
    live.files.write("Makefile", MAKEFILE)
    live.files.write("daemon.py", DAEMON)
    page.goto(f"{gateway.url}/sessions/{live.id}#terminal")
    screen = page.locator(".xterm-rows")
    expect(page.locator(".screen[data-state=open]")).to_be_visible()
    expect(screen).to_contain_text("$")
    page.keyboard.type("top\n")
    expect(screen).to_contain_text("%CPU")
    expect(screen).to_contain_text("bash")
    page.keyboard.type("q")
    page.keyboard.type("clear; seq 1000 > numbers; less numbers\n")
    expect(screen).not_to_contain_text("%CPU")
    expect(screen).to_contain_text("20")
    page.keyboard.type("G")
    expect(screen).to_contain_text("1000")
    page.keyboard.type("g/^777\n")
    expect(screen).to_contain_text("777")
    expect(screen).not_to_contain_text("1000")
    page.keyboard.type("q")
    expect(screen).not_to_contain_text("777")
    page.keyboard.type("clear; make -s -j4 && wc -l < whole\n")
    expect(screen).to_contain_text("2000")
    page.keyboard.type("clear; python3 daemon.py; echo back-$((6*7))\n")
    expect(screen).to_contain_text("back-42")
    page.keyboard.type("exit\n")
    expect(page.locator(".terminals").get_by_role("status")).to_contain_text("This terminal is over.")
    assert live.shell("kill -0 $(cat daemon.pid)").exit_code == 0, "a daemon outlives its terminal"
