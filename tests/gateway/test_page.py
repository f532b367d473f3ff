"""The page as a browser gets it: its documents and parts, what they may do, who is logged in."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.conftest import Gateway, only
from tests.gateway.conftest import assert_refused

pytestmark = only("embedded")

DOCUMENTS = ["/", "/sessions/s-1", "/sessions/s-1/files", "/embed/s-1", "/frame"]
ELSEWHERE = ["cross-site", "same-site", "none", "", "same-origin, cross-site"]


@pytest.fixture
def visitor(gateway: Gateway) -> Iterator[httpx.Client]:
    """A browser that nobody has logged in with; it keeps its cookies."""
    with httpx.Client(base_url=gateway.url, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
def browser(gateway: Gateway, visitor: httpx.Client) -> httpx.Client:
    """One that is logged in."""
    answer = visitor.post("/login", json={"token": gateway.token})
    assert answer.status_code == 204, answer.text
    return visitor


def rules(answer: httpx.Response) -> dict[str, list[str]]:
    policy = answer.headers["Content-Security-Policy"]
    return {rule.split()[0]: rule.split()[1:] for rule in policy.split("; ")}


def port_of(gateway: Gateway) -> str:
    return gateway.url.rpartition(":")[2]


# -- documents and their parts


@pytest.mark.parametrize("path", DOCUMENTS)
def test_anybody_gets_the_documents_and_no_secret_with_them(
    gateway: Gateway, visitor: httpx.Client, path: str
) -> None:
    answer = visitor.get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"
    assert gateway.token not in answer.text
    assert "Set-Cookie" not in answer.headers
    assert "{{" not in answer.text
    scripts = re.findall(r'<script type="module" src="([^"]+)"></script>', answer.text)
    assert scripts
    for part in (*scripts, *re.findall(r'<link rel="stylesheet" href="([^"]+)"', answer.text)):
        assert visitor.get(part).status_code == 200


@pytest.mark.parametrize("path", ["/", "/sessions/s-1", "/embed/s-1"])
def test_a_page_runs_only_its_own_scripts_and_styles(visitor: httpx.Client, path: str) -> None:
    answer = visitor.get(path)
    assets = f"{urlsplit(str(answer.url)).netloc}/assets/"
    policy = rules(answer)
    assert policy["default-src"] == policy["form-action"] == policy["base-uri"] == ["'none'"]
    assert policy["script-src"] == [assets], "and no file of a session, which is on the same host"
    nonce = policy["style-src"][1].removeprefix("'nonce-").removesuffix("'")
    assert policy["style-src"] == [assets, f"'nonce-{nonce}'"]
    assert len(nonce) >= 20
    assert rules(visitor.get(path))["style-src"] != policy["style-src"], "each has another"
    assert nonce in answer.text
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    # A page elsewhere may show the outputs of a session, and nothing else, in a frame.
    assert policy.get("frame-ancestors") == (None if "/embed" in path else ["'none'"])


def test_the_frame_for_outputs_has_no_origin_and_reaches_nothing(visitor: httpx.Client) -> None:
    policy = rules(visitor.get("/frame"))
    assert policy["sandbox"] == ["allow-scripts"], "also when it is opened by itself"
    for what in ("default-src", "connect-src", "form-action", "frame-src", "base-uri"):
        assert policy[what] == ["'none'"]
    for what in ("img-src", "media-src"):
        assert policy[what] == ["data:", "blob:"]


def test_parts_are_kept_for_ever_and_come_compressed(visitor: httpx.Client) -> None:
    (part,) = re.findall(r'src="(/assets/[^"]+)"', visitor.get("/").text)
    plain = visitor.get(part, headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    small = visitor.get(part, headers={"Accept-Encoding": "deflate, gzip;q=0.5"})
    assert small.headers["Content-Encoding"] == "gzip"
    assert small.content == plain.content
    assert int(small.headers["Content-Length"]) < len(plain.content)
    with visitor.stream("GET", part, headers={"Accept-Encoding": "gzip, br"}) as smallest:
        assert smallest.headers["Content-Encoding"] == "br"
    refused = visitor.get(part, headers={"Accept-Encoding": "br;q=0, gzip; q=0.0"})
    assert "Content-Encoding" not in refused.headers
    for answer in (plain, small):
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer.headers["Vary"] == "Accept-Encoding"
        assert answer.headers["Content-Type"].startswith("text/javascript")
        assert answer.headers["Access-Control-Allow-Origin"] == "*", "the frame has no origin"


@pytest.mark.parametrize("name", ["none.js", "..%2findex.html", "%2e%2e", "..%2f..%2fbuild.mjs", "x%00"])
def test_only_the_parts_of_the_page_are_served(visitor: httpx.Client, name: str) -> None:
    assert_refused(visitor.get(f"/assets/{name}"), "not_found")


# -- logging in


def test_the_printed_address_logs_in_and_does_not_keep_the_token(
    gateway: Gateway, visitor: httpx.Client
) -> None:
    for path, then in (("/", "/"), ("/sessions/s-1?a=1&a=2", "/sessions/s-1?a=1&a=2")):
        visitor.cookies.clear()
        assert visitor.get("/v1/status").status_code == 401
        address = path + ("&" if "?" in path else "?") + f"token={gateway.token}"
        answer = visitor.get(address)
        assert answer.status_code == 303
        assert answer.headers["Location"] == then
        assert gateway.token not in str(answer.headers)
        assert visitor.get("/v1/status", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_the_cookie_is_for_this_port_and_no_script_and_is_not_the_token(
    gateway: Gateway, visitor: httpx.Client
) -> None:
    answer = visitor.post("/login", json={"token": gateway.token})
    name, _, rest = answer.headers["Set-Cookie"].partition("=")
    value, *about = rest.split("; ")
    assert name == f"interpreter-{port_of(gateway)}"
    assert set(about) == {"Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=2592000"}
    assert gateway.token not in value
    assert len(value.rpartition(".")[2]) == 43, "a whole SHA-256"
    secure = visitor.post(
        "/login", json={"token": gateway.token}, headers={"X-Forwarded-Proto": "https"}
    )
    assert "; Secure" in secure.headers["Set-Cookie"]


def test_a_wrong_token_logs_nobody_in(visitor: httpx.Client) -> None:
    answer = visitor.get("/?token=wrong")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/?login=wrong"
    assert "Set-Cookie" not in answer.headers
    for token in ("wrong", "", "é" * 50):
        assert_refused(visitor.post("/login", json={"token": token}), "unauthorized")
    assert_refused(visitor.post("/login", json={}), "invalid_request")
    assert_refused(visitor.post("/login", content=b"token"), "invalid_json")
    assert not visitor.cookies


def test_who_has_no_token_has_little_listened_to(visitor: httpx.Client) -> None:
    for method, path in (("POST", "/login"), ("GET", "/healthz"), ("GET", "/")):
        answer = visitor.request(method, path, content=b" " * 20_000)
        assert answer.status_code == 413, (path, answer.text)
        assert answer.json()["error"]["code"] == "request_too_large"


def test_logging_out_takes_the_cookie_away(browser: httpx.Client) -> None:
    same = {"Sec-Fetch-Site": "same-origin"}
    assert_refused(browser.post("/logout", headers={"Sec-Fetch-Site": "cross-site"}), "forbidden")
    assert browser.get("/v1/status", headers=same).status_code == 200
    assert browser.post("/logout", headers=same).status_code == 204
    assert_refused(browser.get("/v1/status", headers=same), "unauthorized")


def test_what_was_not_sealed_here_is_no_login(gateway: Gateway, browser: httpx.Client) -> None:
    name = f"interpreter-{port_of(gateway)}"
    value = browser.cookies[name]
    purpose, fact, until, signature = value.split(".")
    embed = browser.post(
        "/v1/sessions", headers={"X-Interpreter": "page"}, json={"name": "for-an-embed"}
    ).json()["id"]
    sealed = browser.post(f"/v1/sessions/{embed}/embed", headers={"X-Interpreter": "page"}).json()[
        "token"
    ]
    browser.delete(f"/v1/sessions/{embed}", headers={"X-Interpreter": "page"})
    forged = [
        "",
        gateway.token,
        sealed,
        value[:-1] + ("A" if value[-1] != "A" else "B"),
        f"{purpose}.{fact}.{int(until) + 1}.{signature}",
        f"{purpose}.{fact}.{until}.",
        f"{purpose}.{fact}.{until}",
        "..." + signature,
        value + "x" * 1000,
        "é",
    ]
    for wrong in forged:
        headers = {"Sec-Fetch-Site": "same-origin", "Cookie": f"{name}={wrong}".encode()}
        answer = httpx.get(f"{gateway.url}/v1/status", headers=headers, trust_env=False)
        assert_refused(answer, "unauthorized")
    other = {"Sec-Fetch-Site": "same-origin", "Cookie": f"interpreter-1={value}"}
    answer = httpx.get(f"{gateway.url}/v1/status", headers=other, trust_env=False)
    assert_refused(answer, "unauthorized")


def test_a_login_outlives_the_gateway_and_ends_with_the_token(
    data_root: Path, place: dict[str, str]
) -> None:
    data = Path(tempfile.mkdtemp(dir=data_root))
    gateway = Gateway(data, spares="0", **place).start()
    with httpx.Client(base_url=gateway.url, trust_env=False) as browser:
        browser.headers["Sec-Fetch-Site"] = "same-origin"
        browser.post("/login", json={"token": gateway.token})
        assert browser.get("/v1/status").status_code == 200
        gateway.end()
        gateway.start()
        assert browser.get("/v1/status").status_code == 200
        gateway.end()
        (data / "token").write_text("another-token\n")
        gateway.start()
        try:
            assert_refused(browser.get("/v1/status"), "unauthorized")
        finally:
            gateway.end()


# -- a page elsewhere


@pytest.mark.parametrize("site", ELSEWHERE)
def test_a_page_elsewhere_does_nothing_with_a_login(browser: httpx.Client, site: str) -> None:
    """'same-site' is what another port of this host is."""
    headers = {"Sec-Fetch-Site": site}
    for method, path in (
        ("POST", "/v1/sessions"),
        ("DELETE", "/v1/sessions/s-1"),
        ("PUT", "/v1/datasets/d"),
    ):
        answer = browser.request(method, path, headers=headers)
        assert_refused(answer, "forbidden", "page elsewhere")
    answer = browser.get("/v1/sessions", headers=headers)
    assert answer.status_code == (200 if site == "none" else 403), "who types an address may"
    # Nor by what it may add to that.
    more = {**headers, "X-Interpreter": "page", "Origin": str(browser.base_url).rstrip("/")}
    assert_refused(browser.post("/v1/sessions", headers=more), "forbidden")


def test_where_a_browser_says_only_the_origin_that_has_to_be_ours(
    gateway: Gateway, browser: httpx.Client
) -> None:
    port = int(port_of(gateway))
    ours = browser.get("/v1/sessions", headers={"Origin": gateway.url})
    assert ours.status_code == 200
    for origin in (
        "null",
        "",
        f"http://127.0.0.1:{port + 1}",
        f"http://localhost:{port}",
        "http://[",
        gateway.url + "1",
    ):
        assert_refused(browser.get("/v1/sessions", headers={"Origin": origin}), "forbidden")


def test_a_request_that_says_nothing_of_itself_needs_the_header_of_the_page(
    browser: httpx.Client,
) -> None:
    assert_refused(browser.get("/v1/sessions"), "forbidden")
    assert_refused(browser.post("/v1/sessions"), "forbidden")
    assert browser.get("/v1/sessions", headers={"X-Interpreter": "page"}).status_code == 200


def test_the_token_itself_needs_none_of_this(gateway: Gateway, browser: httpx.Client) -> None:
    headers = {**gateway.headers, "Sec-Fetch-Site": "cross-site", "Origin": "https://other.example"}
    assert browser.get("/v1/sessions", headers=headers).status_code == 200
    wrong = {"Authorization": "Bearer wrong", "Sec-Fetch-Site": "same-origin"}
    assert_refused(browser.get("/v1/sessions", headers=wrong), "unauthorized")


def test_no_page_elsewhere_may_load_an_answer(browser: httpx.Client) -> None:
    for path in ("/v1/sessions", "/", "/docs", "/healthz", "/v1/sessions/s-none"):
        answer = browser.get(path, headers={"Sec-Fetch-Site": "same-origin"})
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil"])
def test_a_name_that_leads_here_gets_neither_page_nor_login(
    gateway: Gateway, visitor: httpx.Client, host: str
) -> None:
    headers = {"Host": f"{host}:{port_of(gateway)}"}
    for path in (*DOCUMENTS, f"/?token={gateway.token}"):
        assert_refused(visitor.get(path, headers=headers), "forbidden_host")
    answer = visitor.post("/login", json={"token": gateway.token}, headers=headers)
    assert_refused(answer, "forbidden_host")


def test_a_host_can_be_allowed(data_root: Path, tmp_path: Path, place: dict[str, str]) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('allowed_hosts = ["Box.example"]\n')
    data = Path(tempfile.mkdtemp(dir=data_root))
    gateway = Gateway(data, "--config", str(settings), spares="0", **place).start()
    try:
        for host, status in (("box.example", 200), ("box.example:80", 200), ("evil.example", 403)):
            answer = httpx.get(f"{gateway.url}/", headers={"Host": host}, trust_env=False)
            assert answer.status_code == status
        # Not the machine itself, and nothing is said of where a request comes from: see auth.py.
        headers = {"Host": "box.example", "Cookie": ""}
        answer = httpx.post(
            f"{gateway.url}/login", json={"token": gateway.token}, headers=headers, trust_env=False
        )
        headers["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
        assert headers["Cookie"].startswith("interpreter-http=")
        url = f"{gateway.url}/v1/sessions"
        assert httpx.get(url, headers=headers, trust_env=False).status_code == 200
        assert_refused(httpx.post(url, headers=headers, trust_env=False), "forbidden")
    finally:
        gateway.end()


# -- what a login is good for


def test_a_login_is_good_for_cells_and_streams(browser: httpx.Client) -> None:
    browser.headers["Sec-Fetch-Site"] = "same-origin"
    session = browser.post("/v1/sessions").json()["id"]
    try:
        run = browser.post(f"/v1/sessions/{session}/executions", json={"code": "6 * 7", "by": "page"})
        assert run.json()["text"] == "42"
        events = browser.get(f"/v1/sessions/{session}/events", params={"follow": "false"})
        assert "event: done" in events.text
        assert browser.get("/api/kernels").status_code == 200
    finally:
        browser.delete(f"/v1/sessions/{session}")


@pytest.mark.parametrize("path", ["/v1/sessions/{id}/terminals/main", "/api/kernels/{kernel}/channels"])
def test_a_login_opens_sockets_for_pages_of_this_very_port(
    gateway: Gateway, browser: httpx.Client, path: str
) -> None:
    browser.headers["Sec-Fetch-Site"] = "same-origin"
    session = browser.post("/v1/sessions").json()["id"]
    kernels = browser.get("/api/kernels").json()
    (kernel,) = [kernel["id"] for kernel in kernels if kernel["session"] == session]
    url = gateway.url.replace("http:", "ws:") + path.format(id=session, kernel=kernel)
    cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
    port = int(port_of(gateway))

    def status(headers: dict[str, str]) -> int:
        try:
            with connect(url, additional_headers=headers, proxy=None):
                return 101
        except InvalidStatus as refused:
            return int(refused.response.status_code)

    try:
        assert status({**cookie, "Origin": gateway.url}) == 101
        assert status(cookie) == 403, "a browser always says an origin"
        assert status({**cookie, "X-Interpreter": "page"}) == 403
        assert status({**cookie, "Sec-Fetch-Site": "same-origin"}) == 403
        for origin in (f"http://127.0.0.1:{port + 1}", f"http://localhost:{port}", "null"):
            assert status({**cookie, "Origin": origin}) == 403
        assert status({"Origin": gateway.url}) == 401
    finally:
        browser.delete(f"/v1/sessions/{session}")
