"""What a person meets who opens the page for the first time."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from interpreter import Client
from tests.conftest import Gateway, only
from tests.page.conftest import new_context

pytestmark = only("embedded")

FIRST_VIEW = 300_000
"""Bytes that may travel until the list of sessions is shown."""


def test_from_the_token_to_a_plot(browser: Browser, gateway: Gateway, client: Client) -> None:
    """Nothing but the token and a mouse: sign in, make a session, draw something, clean up."""
    context = new_context(browser)
    page = context.new_page()
    page.goto(gateway.url)
    page.get_by_label("Token").fill("wrong-token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("The token is wrong")
    page.get_by_label("Token").fill(gateway.token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="New session").first.click()
    page.get_by_label("Name").fill("first")
    page.get_by_label("Files to begin with").set_input_files(
        {"name": "points.csv", "mimeType": "text/csv", "buffer": b"x,y\n1,2\n2,1\n"}
    )
    page.get_by_text("Limits").click()
    page.get_by_label("Memory, MB").fill("1024")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="first")).to_be_visible()
    expect(page.get_by_label("Code of the next cell")).to_be_focused()
    page.keyboard.insert_text(
        "import pandas as pd\nimport matplotlib.pyplot as plt\n"
        "pd.read_csv('points.csv').plot(); plt.savefig('plot.png'); plt.show()"
    )
    page.get_by_role("button", name="Run", exact=True).click()
    plot = page.get_by_role("img", name=re.compile("Figure|Image"))
    expect(plot).to_be_visible()
    assert plot.evaluate("image => image.naturalWidth") > 100
    # The file that the cell made is under it, as what it is.
    made = page.get_by_role("img", name="plot.png")
    expect(made).to_be_visible()
    page.wait_for_function("image => image.naturalWidth > 100", arg=made.element_handle())
    (session,) = client.sessions(name="first")
    assert session.limits.memory_mb == 1024

    page.get_by_role("link", name="Sessions").click()
    row = page.locator(".session-row", has_text="first")
    expect(row).to_contain_text("ready")
    row.get_by_role("button", name="Pause first").click()
    expect(row).to_contain_text("paused")
    row.get_by_role("button", name="Resume first").click()
    expect(row).to_contain_text("ready")
    row.get_by_role("button", name="Stop first").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(row).to_contain_text("stopped")
    row.get_by_role("button", name="Start first").click()
    expect(row).to_contain_text("ready")
    row.get_by_role("button", name="Delete first").click()
    page.get_by_role("button", name="Cancel").click()
    expect(row).to_be_visible()
    row.get_by_role("button", name="Delete first").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert not list(client.sessions(name="first"))
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    context.close()


def test_a_file_that_fails_to_arrive_makes_no_second_session(
    page: Page, gateway: Gateway, client: Client
) -> None:
    """The limits that the gateway has are named, a dataset is put in, and files are sent until they are there."""
    client.datasets.upload("cities", b"Ulm", filename="names.txt")
    page.goto(gateway.url)
    page.get_by_role("button", name="New session").first.click()
    page.get_by_label("Name").fill("with files")
    page.get_by_text("Limits").click()
    expect(page.get_by_label("Memory, MB")).to_have_attribute("placeholder", "2048")
    page.get_by_label("cities").check()
    files = [
        {"name": f"{name}.txt", "mimeType": "text/plain", "buffer": b"x"}
        for name in ("one", "two", "three")
    ]
    page.get_by_label("Files to begin with").set_input_files(files)  # type: ignore[arg-type]
    page.route("**/files/two.txt", lambda route: route.abort(), times=1)
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("The session is there; 2 files are not.")
    expect(page.get_by_label("Name")).to_be_disabled()
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("heading", name="with files")).to_be_visible()
    (found,) = client.sessions(name="with files")
    session = client.session(found.id)
    assert {entry.path for entry in session.files.list()} >= {"one.txt", "two.txt", "three.txt"}
    assert session.run("open('/data/input/cities/names.txt').read()").text == "'Ulm'"
    session.delete()
    client.datasets.delete("cities")


def test_one_session_is_found_among_many_or_it_is_said_that_there_is_none(
    page: Page, gateway: Gateway, client: Client
) -> None:
    """Also one that is not among those that the list begins with."""
    wanted = client.create_session(name="needle")
    others = [client.create_session(name=f"hay {i}") for i in range(2)]
    # The list is asked for shorter than it is, as if there were more than a hundred.
    page.route(
        "**/v1/sessions?limit=100",
        lambda route: route.continue_(url=f"{gateway.url}/v1/sessions?limit=1"),
    )
    page.goto(gateway.url)
    expect(page.locator(".session-row")).to_have_count(1)
    page.get_by_label("Find a session").fill("needle")
    expect(page.locator(".session-row")).to_have_count(1)
    expect(page.get_by_role("link", name="needle")).to_be_visible()
    page.get_by_label("Find a session").fill("nothing of the kind")
    expect(page.get_by_text("No session has “nothing of the kind”")).to_be_visible()
    for session in (wanted, *others):
        session.delete()


def test_the_list_shows_what_others_do_without_being_asked(
    page: Page, gateway: Gateway, client: Client
) -> None:
    page.goto(gateway.url)
    with client.session(name="busy one") as session:
        row = page.locator(".session-row", has_text="busy one")
        expect(row).to_contain_text("ready")
        expect(row).to_contain_text("bubblewrap")
        expect(row).to_contain_text(re.compile(r"\d+ (MB|kB)"))
        expect(row).to_contain_text(re.compile(r"\d+ % CPU"))
        expect(row).to_contain_text(re.compile("paused in .* min"))
        session.submit("\n# a comment\nwhile True: pass")
        expect(row).to_contain_text("running")
        expect(row).to_contain_text("# a comment")
        expect(row).to_contain_text("by agent")
        session.interrupt()
    expect(row).to_have_count(0)


def test_the_first_view_is_small_and_asks_no_other_host(page: Page, gateway: Gateway) -> None:
    received: list[int] = []

    def count(response: Response) -> None:
        sizes = response.request.sizes()
        received.append(sizes["responseBodySize"] + sizes["responseHeadersSize"])

    page.on("requestfinished", lambda request: count(request.response()))  # type: ignore[arg-type]
    page.goto(gateway.url)
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert 1_000 < sum(received) < FIRST_VIEW


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_until_one_chooses(
    browser: Browser, gateway: Gateway, scheme: str
) -> None:
    context = new_context(browser, color_scheme=scheme)
    context.request.post(f"{gateway.url}/login", data={"token": gateway.token})
    page = context.new_page()
    page.goto(gateway.url)
    brightness = "() => Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]) > 128"
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    assert page.evaluate(brightness) is (scheme == "light")
    page.get_by_role("button", name="Colours: system").click()
    assert page.evaluate(brightness) is False
    page.get_by_role("button", name="Colours: dark").click()
    assert page.evaluate(brightness) is True
    page.reload()
    expect(page.get_by_role("button", name="Colours: light")).to_be_visible()
    assert page.evaluate(brightness) is True
    context.close()
