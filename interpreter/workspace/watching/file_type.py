"""The MIME type of a file, by its name: the same on every machine, whatever is installed there."""

from __future__ import annotations

import mimetypes

MORE = {
    ".arrow": "application/vnd.apache.arrow.file",
    ".feather": "application/vnd.apache.arrow.file",
    ".geojson": "application/geo+json",
    ".ipynb": "application/x-ipynb+json",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
COMPRESSED = {
    "gzip": "application/gzip",
    "bzip2": "application/x-bzip2",
    "xz": "application/x-xz",
    "br": "application/x-brotli",
    "compress": "application/x-compress",
}


def _types() -> mimetypes.MimeTypes:
    mimetypes.init(files=())
    types = mimetypes.MimeTypes()
    for suffix, type in MORE.items():
        types.add_type(type, suffix)
    return types


_TYPES = _types()


def mime_type(name: str) -> str | None:
    """None when the name does not tell."""
    type, encoding = _TYPES.guess_type(f"./{name}")
    return type if encoding is None else COMPRESSED[encoding]
