"""The OpenAPI description, made from the operations and the types that validate requests."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from interpreter import __version__
from interpreter.errors import (
    Forbidden,
    ForbiddenHost,
    InterpreterError,
    InvalidJson,
    InvalidRequest,
    RequestTooLarge,
    StoreDamaged,
    StoreUnavailable,
    Unauthorized,
)
from interpreter.gateway.operation import Answer, Operation
from interpreter.gateway.streams import EventNumber, ServerSentEvent
from interpreter.models import ErrorAnswer

REF = "#/components/schemas/{name}"
JSON = "application/json"
EVENTS = "text/event-stream"
BYTES = {"schema": {"type": "string", "format": "binary"}}
NOUNS = (
    *("sessions", "executions", "commands", "terminals", "processes", "files", "datasets"),
    "workspaces",
)
RAW = "application/octet-stream"
UPLOAD = {
    RAW: BYTES,
    "multipart/form-data": {
        "schema": {"type": "object", "properties": {"file": BYTES["schema"]}, "required": ["file"]}
    },
}


def describe(operations: list[Operation]) -> dict[str, Any]:
    types: set[type] = {ErrorAnswer, ServerSentEvent}
    for operation in operations:
        types |= {operation.body} if operation.body is not None else set()
        types |= {t for answer in operation.answers.values() for t in _alternatives(answer)}
    ordered = sorted(types, key=lambda t: t.__name__)
    _, components = msgspec.json.schema_components(ordered, ref_template=REF)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Interpreter",
            "version": __version__,
            "description": "A self-hosted, stateful code interpreter on Jupyter kernels.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [_tag(operation)],
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": {**_answers(operation), **_errors(operation)},
    }
    if operation.body is not None:
        required = any(f.required for f in msgspec.structs.fields(operation.body))
        described["requestBody"] = {
            "required": required,
            "content": {JSON: {"schema": _ref(operation.body)}},
        }
    if operation.receive is not None:
        content = {RAW: UPLOAD[RAW]} if operation.raw else UPLOAD
        described["requestBody"] = {"required": False, "content": content}
    if operation.public:
        described["security"] = []
    return described


def _tag(operation: Operation) -> str:
    """The heading it stands under in the page."""
    nouns = [noun for noun in NOUNS if f"/{noun}" in operation.path]
    return nouns[-1] if nouns else "gateway"


def _alternatives(answer: Answer) -> tuple[type, ...]:
    """The types that an answer can have."""
    if answer is None:
        return ()
    return answer if isinstance(answer, tuple) else (answer,)


def _ref(type: type) -> dict[str, str]:
    return {"$ref": REF.format(name=type.__name__)}


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(operation, name)}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]


def _path_schema(operation: Operation, name: str) -> dict[str, Any]:
    if name in operation.path_types:
        return msgspec.json.schema(operation.path_types[name])
    return {"type": "string", "minLength": 1}


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    parameters = []
    if operation.query is not None:
        (_,), components = msgspec.json.schema_components([operation.query], ref_template=REF)
        described = components[operation.query.__name__]
        needed = described.get("required", [])
        for name, schema in described["properties"].items():
            required = name in needed
            parameters.append({"name": name, "in": "query", "required": required, "schema": schema})
    if operation.stream and operation.method == "GET":
        schema = msgspec.json.schema(EventNumber)
        parameters.append({"name": "Last-Event-ID", "in": "header", "schema": schema})
    for name, meaning in operation.headers.items():
        text: dict[str, Any] = {"type": "string"}
        if operation.longest_header is not None:
            text |= {"minLength": 1, "maxLength": operation.longest_header}
        parameters.append({"name": name, "in": "header", "description": meaning, "schema": text})
    return parameters


def _answers(operation: Operation) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, answer in operation.answers.items():
        content: dict[str, Any] = {}
        schemas = [_ref(type) for type in _alternatives(answer)]
        if schemas:
            content[JSON] = {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
        if operation.stream and status == 200:
            content[EVENTS] = {"schema": _ref(ServerSentEvent)}
        if operation.binary and status < 300:
            content["*/*"] = BYTES
        if operation.text:
            content["text/plain"] = {"schema": {"type": "string"}}
        answers[str(status)] = {"description": operation.summary}
        if content:
            answers[str(status)]["content"] = content
    return answers


def _errors(operation: Operation) -> dict[str, Any]:
    always: list[type[InterpreterError]] = [InvalidRequest, ForbiddenHost, RequestTooLarge]
    if not operation.public:
        always += (Unauthorized, Forbidden, StoreUnavailable, StoreDamaged)
    if operation.body is not None:
        always.append(InvalidJson)
    by_status: dict[int, list[str]] = {}
    for error in (*always, *operation.errors):
        by_status.setdefault(error.status, []).append(error.code)
    return {
        str(status): {
            "description": " or ".join(sorted(set(codes))),
            "content": {JSON: {"schema": _ref(ErrorAnswer)}},
        }
        for status, codes in sorted(by_status.items())
    }
