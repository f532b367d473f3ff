"""The list of sessions, and how one is made, whatever answers come late."""

from __future__ import annotations

import contextlib
from typing import Any

from playwright.sync_api import Error, Page, Route, expect

from interpreter import Client
from tests.conftest import Gateway, only
from tests.e2e.test_restart_of_the_gateway import wait_for
from tests.page.test_notebook import DRAWN

pytestmark = only("embedded")


def test_processor_use_is_that_of_the_last_look_however_often_it_is_drawn(
    page: Page, gateway: Gateway, client: Client
) -> None:
    page.clock.install()
    answered: list[dict[str, Any]] = []

    def answer(route: Route) -> None:
        """Twice, with two seconds of processor time between; then not any more."""
        if len(answered) == 2:
            return
        answered.append(route.fetch().json())
        for session in answered[-1]["sessions"]:
            used = {"cpu_seconds": 2.0 * len(answered), "memory_bytes": 1_000_000, "processes": 2}
            session["usage"] = used
        route.fulfill(json=answered[-1])

    page.route("**/v1/sessions?limit=*", answer)
    with client.session(name="wanted") as session, client.session(name="another"):
        page.goto(gateway.url)
        row = page.locator(f".session-row[data-id={session.id}]")
        expect(row.locator(".cpu")).to_be_visible()
        said = row.locator(".cpu").inner_text()
        assert 0 < int(said.split()[0]) <= 200, said
        page.clock.fast_forward(1_000)
        page.get_by_label("Find a session").fill("wanted")
        expect(page.get_by_role("link", name="another")).to_have_count(0)
        assert row.locator(".cpu").inner_text() == said


def test_a_late_answer_does_not_bring_a_deleted_session_back(
    page: Page, gateway: Gateway, client: Client
) -> None:
    session = client.create_session(name="to be deleted")
    page.goto(gateway.url)
    row = page.locator(f".session-row[data-id={session.id}]")
    expect(row).to_be_visible()
    late: list[tuple[Route, Any]] = []
    page.route(
        "**/v1/sessions?limit=*", lambda route: late.append((route, route.fetch().json())), times=1
    )
    wait_for(lambda: page.evaluate("1") == 1 and len(late) == 1, 60)
    row.get_by_role("button", name="Delete to be deleted", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    route, listed = late[0]
    assert session.id in [one["id"] for one in listed["sessions"]]
    with page.expect_response("**/v1/sessions?limit=*"):
        route.fulfill(json=listed)
    page.evaluate(DRAWN)
    assert row.count() == 0


def test_a_session_that_is_not_wanted_any_more_while_it_starts_is_deleted(
    page: Page, gateway: Gateway, client: Client
) -> None:
    made: list[tuple[Route, Any]] = []

    def hold(route: Route) -> None:
        made.append((route, route.fetch()))

    page.route("**/v1/sessions", hold)
    page.goto(gateway.url)
    page.get_by_role("button", name="New session").first.click()
    page.get_by_label("Name").fill("not wanted")
    page.get_by_role("button", name="Create").click()
    wait_for(lambda: page.evaluate("1") == 1 and len(made) == 1, 60)
    assert len(list(client.sessions(name="not wanted"))) == 1
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    route, answer = made[0]
    with page.expect_response(lambda response: response.request.method == "DELETE"):
        route.fulfill(response=answer)
    assert list(client.sessions(name="not wanted")) == []
    page.evaluate(DRAWN)
    assert page.url == f"{gateway.url}/"
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()


def test_who_goes_on_without_a_file_is_not_called_back(
    page: Page, gateway: Gateway, client: Client
) -> None:
    held: list[Route] = []
    page.route("**/files/large.bin", lambda route: held.append(route))
    page.goto(gateway.url)
    page.get_by_role("button", name="New session").first.click()
    page.get_by_label("Name").fill("without")
    page.get_by_label("Files to begin with").set_input_files(
        {"name": "large.bin", "mimeType": "application/octet-stream", "buffer": b"x"}
    )
    page.get_by_role("button", name="Create").click()
    page.get_by_role("button", name="Go on without").click()
    expect(page.get_by_role("heading", name="without")).to_be_visible()
    page.get_by_role("link", name="Sessions").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    with contextlib.suppress(Error):  # the page has given up on it
        held[0].fulfill(status=201, json={})
    page.evaluate(DRAWN)
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    (left,) = client.sessions(name="without")
    client.session(left.id).delete()
