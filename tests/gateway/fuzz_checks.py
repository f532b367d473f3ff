"""What the fuzz run checks beside what the description says; schemathesis loads this by its name."""

from __future__ import annotations

import schemathesis
from schemathesis import Case, CheckContext, GenerationMode, Response

POLICY = {
    *("unknown_environment", "limit_too_high", "invalid_archive", "invalid_path", "wrong_digest"),
    *("invalid_command", "invalid_notebook"),
}


@schemathesis.check
def errors_say_what_to_do(context: CheckContext, response: Response, case: Case) -> None:
    if response.status_code >= 400 and case.method != "HEAD":
        error = response.json()["error"]
        assert error["code"], "it has no code"
        assert error["message"], "it has no message"
        assert error["hint"], "it does not say what to do"
        assert "Traceback" not in error["message"], "it shows a traceback"


@schemathesis.check
def what_is_described_is_refused_only_by_policy(
    context: CheckContext, response: Response, case: Case
) -> None:
    positive = case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
    if positive and response.status_code == 400:
        error = response.json()["error"]
        # JSON Schema calls 5.0 an integer; the gateway does not.
        if "Expected `int" not in error["message"] or "got `float`" not in error["message"]:
            assert error["code"] in POLICY, "the description promised that it is valid"
