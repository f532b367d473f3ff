"""The page that shows the API, looked at with a real browser."""

from __future__ import annotations

import html
import re
import shutil
import subprocess

import httpx
import pytest

from interpreter.gateway.application import LISTED
from tests.conftest import Gateway
from tests.gateway.conftest import assert_refused

QUIET = [
    "--headless",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
]
OWN = "escaping deep link whitespace"
"""What Swagger UI warns of when a link has an underscore, though it works."""
# The browser finds no machine but this one, whatever the page or the browser itself asks for.
ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


@pytest.fixture(scope="module")
def seen(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The page as the browser shows it, and what the browser has to say about it."""
    browser = shutil.which("chromium")
    assert browser is not None, "tests/packages installs chromium"
    profile = tmp_path_factory.mktemp("browser")
    more = [f"--user-data-dir={profile}", "--virtual-time-budget=30000", "--enable-logging=stderr"]
    ended = subprocess.run(
        [browser, *QUIET, ALONE, *more, "--dump-dom", f"{gateway.url}/docs#/executions/run_cell"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    shutil.rmtree(profile, ignore_errors=True)
    console = [line for line in ended.stderr.splitlines() if "CONSOLE" in line and OWN not in line]
    return ended.stdout, "\n".join(console)


def test_the_page_lists_every_operation(seen: tuple[str, str]) -> None:
    text = html.unescape(re.sub(r"<[^>]*>", "", seen[0])).replace("\u200b", "")
    for operation in LISTED:
        assert operation.path in text
        assert operation.summary in text
    assert seen[0].count('class="opblock opblock-') == len(LISTED)
    assert "Unable to render" not in text
    assert "Authorize" in text, "the token can be given"
    assert "max_output_bytes" in text, "an operation that a link names is unfolded"


def test_the_page_keeps_its_own_rules(seen: tuple[str, str]) -> None:
    assert seen[1] == "", "neither an error nor anything that the policy forbids"


def test_the_policy_allows_only_what_the_gateway_itself_serves(gateway: Gateway) -> None:
    answer = httpx.get(f"{gateway.url}/docs", trust_env=False)
    rules = dict(rule.split(" ", 1) for rule in answer.headers["Content-Security-Policy"].split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["frame-ancestors"] == "'none'", "no page elsewhere can put this one into a frame"
    sources = {source for rule in rules.values() for source in rule.split()}
    assert sources == {"'none'", "'self'", "data:"}, "nothing inline, nothing from elsewhere"


def test_the_page_names_nothing_from_elsewhere(gateway: Gateway, seen: tuple[str, str]) -> None:
    named = re.findall(r'(?:src|href|action)="([^"#]+)"', seen[0])
    assert named
    own = (gateway.url, "/docs/", "/openapi.json", "data:")
    assert [place for place in named if not place.startswith(own)] == []


@pytest.mark.parametrize("name", ["none.js", "..%2fswagger.json", "swagger-ui.js.map", "%2e%2e"])
def test_only_the_parts_of_the_page_are_served(http: httpx.Client, name: str) -> None:
    assert_refused(http.get(f"/docs/assets/{name}"), "not_found")
