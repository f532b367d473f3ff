"""The built files, as the gateway finds them; what of the page is for everybody."""

from __future__ import annotations

import gzip
from pathlib import Path

from interpreter.gateway.page import OPERATIONS
from interpreter.gateway.web_files import DIST, WebFiles


def test_a_page_that_was_not_built_says_so_and_is_found_once_it_is(tmp_path: Path) -> None:
    files = WebFiles(tmp_path)
    assert files.page("index") is None
    assert files.asset("a.js", set()) is None
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a.js").write_text("1")
    (tmp_path / "assets" / "a.js.gz").write_bytes(gzip.compress(b"1"))
    (tmp_path / "index.html").write_text("built")
    (tmp_path / "manifest.json").write_text('{"assets": {"a.js": {"type": "t", "bytes": 1, "gz": 2}}}')
    assert files.page("index") == "built"
    found = files.asset("a.js", {"gzip"})
    assert found is not None
    assert gzip.decompress(found[2]) == b"1"
    assert files.asset("a.js.gz", set()) is None, "only what is listed"
    assert DIST.joinpath("manifest.json").exists(), "'make test' builds it"


def test_the_page_has_no_other_way_in() -> None:
    assert {(o.method, o.path) for o in OPERATIONS if not o.public} == {("POST", "/logout")}
    assert {(o.method, o.path) for o in OPERATIONS if o.method != "GET"} == {
        ("POST", "/login"),
        ("POST", "/logout"),
    }
