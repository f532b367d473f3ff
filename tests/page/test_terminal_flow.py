"""Terminals that show more than a page can draw, and the keyboard's way in and out of them."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from interpreter import Session
from tests.conftest import Gateway, only
from tests.e2e.test_restart_of_the_gateway import wait_for

pytestmark = only("embedded")

SOCKETS = """
  window.sockets = [];
  window.WebSocket = class extends WebSocket {
    constructor(...given) { super(...given); sockets.push(this); }
  };
"""
FLOOD = """() => {
  const line = "x".repeat(99) + "\\r\\n";
  const many = JSON.stringify(["stdout", line.repeat(640)]);
  const show = (data) => sockets.at(-1).onmessage({data});
  for (let i = 0; i < 1500; i++) show(many);
  show(JSON.stringify(["stdout", "the end of the flood\\r\\n"]));
}"""
"""Nearly a hundred megabytes before the page can draw any of it, as in a tab that nobody looks at."""


def test_a_flood_that_cannot_be_drawn_keeps_its_end_and_the_terminal(
    page: Page, gateway: Gateway, live: Session
) -> None:
    page.add_init_script(SOCKETS)
    page.goto(f"{gateway.url}/sessions/{live.id}#terminal")
    screen = page.locator(".xterm-rows")
    expect(page.locator(".screen[data-state=open]")).to_be_visible()
    expect(screen).to_contain_text("$")
    page.evaluate(FLOOD)
    expect(screen).to_contain_text("the end of the flood")
    page.keyboard.type("clear; echo alive-$((6*7))\n")
    expect(screen).to_contain_text("alive-42")
    page.keyboard.type("sleep 1000\n")
    expect(screen).to_contain_text("sleep 1000")
    page.evaluate(FLOOD)
    page.keyboard.press("Control+C")
    page.keyboard.type("echo and on > stopped\n")
    wait_for(lambda: "stopped" in [entry.name for entry in live.files.list()], 60)


def test_the_keyboard_leads_into_a_terminal_and_out_of_it(
    page: Page, gateway: Gateway, live: Session
) -> None:
    """Every key is a program's own, Tab and Escape among them, but for the one that leaves."""
    page.goto(f"{gateway.url}/sessions/{live.id}#terminal")
    screen = page.locator(".xterm-rows")
    inside = page.locator(".xterm-helper-textarea")
    expect(page.locator(".screen[data-state=open]")).to_be_visible()
    expect(screen).to_contain_text("$")
    expect(inside).to_be_focused()
    hint = page.locator(f"#{inside.get_attribute('aria-describedby')}")
    expect(hint).to_have_text("Ctrl Shift Enter leaves the terminal; Tab is typed into it.")
    page.keyboard.type("echo reads-$((6*7)); cat > typed\n")
    expect(screen).to_contain_text("reads-42")
    page.keyboard.press("Tab")
    page.keyboard.type("x")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+D")
    wait_for(lambda: live.files.read("typed") == b"\tx\x1b\n", 60)
    page.keyboard.press("Control+Shift+Enter")
    expect(page.get_by_role("button", name="Terminal 1")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="New terminal")).to_be_focused()
    page.keyboard.press("Tab")
    expect(inside).to_be_focused()
    page.keyboard.type("echo back-$((6*7))\n")
    expect(screen).to_contain_text("back-42")
    assert live.files.read("typed") == b"\tx\x1b\n", "the key that leaves is typed nowhere"
