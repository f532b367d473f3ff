"""The MIME type of a file, by the ending of its name: the same on every machine, whatever is installed
there, and the same in listings, in what a cell changed and of datasets. Nobody looks inside."""

from __future__ import annotations

import mimetypes

UNKNOWN = "application/octet-stream"
MORE = {
    ".arrow": "application/vnd.apache.arrow.file",
    ".feather": "application/vnd.apache.arrow.file",
    ".geojson": "application/geo+json",
    ".gz": "application/gzip",
    ".ipynb": "application/x-ipynb+json",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".toml": "application/toml",
    ".webp": "image/webp",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
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
    # What the standard library knows, not what the machine's own lists say.
    mimetypes.init(files=())
    types = mimetypes.MimeTypes()
    for suffix, type in MORE.items():
        types.add_type(type, suffix)
    return types


_TYPES = _types()


def mime_type(name: str) -> str | None:
    """None when the name does not tell."""
    # A name such as 'data:x' is no URL, and '.csv' has no ending.
    type, encoding = _TYPES.guess_type("./" + name.replace(":", "_"))
    return type if encoding is None else COMPRESSED.get(encoding, UNKNOWN)
