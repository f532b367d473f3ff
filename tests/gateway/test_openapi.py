"""The description says what the gateway does: every operation, every error, the very same types."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from interpreter.errors import BY_CODE
from interpreter.gateway.application import LISTED
from interpreter.gateway.operation import Operation
from interpreter.models import ExecutionCreate, InputReply, LimitsRequest, SessionCreate

TYPES = {
    type.__name__: type
    for operation in LISTED
    for answer in (operation.body, *operation.answers.values())
    for type in (answer if isinstance(answer, tuple) else (answer,))
    if type is not None
}
BODIES = [ExecutionCreate, InputReply, LimitsRequest, SessionCreate]


@pytest.fixture(scope="module")
def description(gateway: Any) -> dict[str, Any]:
    answer = httpx.get(f"{gateway.url}/openapi.json", trust_env=False)
    assert answer.status_code == 200, "it needs no token"
    assert answer.headers["Content-Type"] == "application/json"
    return dict(answer.json())


def described(description: dict[str, Any], operation: Operation) -> dict[str, Any]:
    return dict(description["paths"][operation.path][operation.method.lower()])


def test_it_is_valid_openapi(description: dict[str, Any]) -> None:
    assert description["openapi"].startswith("3.1.")
    OpenAPIV31SpecValidator(description).validate()


def test_every_operation_is_in_it_and_nothing_else(description: dict[str, Any]) -> None:
    there = {
        (method, path): operation["operationId"]
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    }
    assert there == {(o.method.lower(), o.path): o.name for o in LISTED}
    assert len(set(there.values())) == len(there), "each has a name of its own"
    for operation in LISTED:
        assert described(description, operation)["summary"]


def test_every_path_of_it_leads_to_an_operation(description: dict[str, Any], http: httpx.Client) -> None:
    for path, methods in description["paths"].items():
        answer = http.request("OPTIONS", path.replace("{", "").replace("}", ""))
        assert answer.status_code == 405
        allowed = set(answer.headers["Allow"].lower().split(", ")) - {"head"}
        assert allowed == set(methods)


def test_every_error_in_it_exists_with_its_status(description: dict[str, Any]) -> None:
    named = set()
    for operation in LISTED:
        for status, answer in described(description, operation)["responses"].items():
            if int(status) < 400:
                continue
            for code in answer["description"].split(" or "):
                assert BY_CODE[code].status == int(status)
                named.add(code)
            schema = answer["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ErrorAnswer"}
    unsaid = {"internal", "configuration", "not_found", "method_not_allowed"}
    assert named == set(BY_CODE) - unsaid, "and every error that an operation can meet is in it"


def test_only_public_operations_need_no_token(description: dict[str, Any]) -> None:
    assert description["security"] == [{"token": []}]
    for operation in LISTED:
        about = described(description, operation)
        assert (about.get("security") == []) == operation.public
        assert ("401" in about["responses"]) != operation.public


@pytest.mark.parametrize("name", TYPES)
def test_its_schemas_have_the_fields_of_the_types(description: dict[str, Any], name: str) -> None:
    schema, fields = description["components"]["schemas"][name], msgspec.structs.fields(TYPES[name])
    assert set(schema["properties"]) == {field.encode_name for field in fields}
    assert set(schema["required"]) == {field.encode_name for field in fields if field.required}


@pytest.mark.parametrize("operation", LISTED, ids=lambda operation: operation.name)
def test_its_parameters_and_bodies_are_those_that_are_validated(
    description: dict[str, Any], operation: Operation
) -> None:
    about = described(description, operation)
    query = {p["name"] for p in about["parameters"] if p["in"] == "query"}
    path = {p["name"] for p in about["parameters"] if p["in"] == "path"}
    fields = msgspec.structs.fields(operation.query) if operation.query else ()
    assert query == {field.encode_name for field in fields}
    assert path == {part[1:-1] for part in operation.path.split("/") if part.startswith("{")}
    if operation.receive is not None:
        assert "application/octet-stream" in about["requestBody"]["content"]
    elif operation.body is None:
        assert "requestBody" not in about
    else:
        schema = about["requestBody"]["content"]["application/json"]["schema"]
        assert schema == {"$ref": f"#/components/schemas/{operation.body.__name__}"}


@pytest.mark.parametrize("type", BODIES)
def test_bounds_in_it_are_bounds_that_hold(description: dict[str, Any], type: Any) -> None:
    properties = description["components"]["schemas"][type.__name__]["properties"]
    needed = {"code": ""} if type is ExecutionCreate else {}
    for name, schema in properties.items():
        for bounded in schema.get("anyOf", [schema]):
            for wrong in _beyond(bounded):
                with pytest.raises(msgspec.ValidationError, match=name):
                    msgspec.json.decode(msgspec.json.encode({**needed, name: wrong}), type=type)


def _beyond(schema: dict[str, Any]) -> list[Any]:
    """Values just outside of what a schema allows."""
    values: list[Any] = []
    if "minimum" in schema:
        values.append(schema["minimum"] - (1 if schema["type"] == "integer" else 0.01))
    if "exclusiveMinimum" in schema:
        values.append(schema["exclusiveMinimum"])
    if "maximum" in schema:
        values.append(schema["maximum"] + 1)
    if schema.get("minLength"):
        values.append("x" * (schema["minLength"] - 1))
    if "maxLength" in schema:
        values.append("x" * (schema["maxLength"] + 1))
    if "maxProperties" in schema:
        values.append({str(i): "" for i in range(schema["maxProperties"] + 1)})
    return values


def test_unknown_fields_are_excluded_by_it_too(description: dict[str, Any]) -> None:
    for type in BODIES:
        assert description["components"]["schemas"][type.__name__]["additionalProperties"] is False
