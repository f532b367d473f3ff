"""The options and arguments that several commands have."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

Which = Annotated[str, typer.Argument(metavar="SESSION", help="Id, beginning of an id, or name.")]
Several = Annotated[list[str], typer.Argument(metavar="SESSION…", help="Ids, beginnings or names.")]
Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="Name of the dataset.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Joined = Annotated[
    str | None,
    typer.Option("--session", "-s", metavar="SESSION", help="Use this session: id, prefix or name."),
]
Name = Annotated[str | None, typer.Option(help="Name of the new session.")]
Env = Annotated[str | None, typer.Option("--environment", "-e", help="Environment of the new session.")]
Variables = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="K=V", help="A variable for the new session; may be repeated."),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="DATASET", help="A dataset to see; may be repeated."),
]
InWorkspace = Annotated[
    str | None,
    typer.Option("--workspace", "-w", metavar="NAME", help="Named workspace of the new session."),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Only read the workspace, beside others.")]
WorkspaceName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the workspace.")]
Owner = Annotated[str | None, typer.Option(help="Whose it is: a user or a tenant.")]
DiskMb = Annotated[int | None, typer.Option(metavar="MB", help="What it may hold.")]
Labels = Annotated[
    list[str] | None,
    typer.Option(metavar="K=V", help="Only those with this label; may be repeated."),
]
InContext = Annotated[
    str, typer.Option("--context", "-c", metavar="NAME", help="Which of the session's kernels.")
]
Images = Annotated[Path, typer.Option(metavar="DIR", help="Where images are saved.")]
ImageName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which one; all if not given.")]
BaseImage = Annotated[
    str, typer.Option(metavar="auto|debian|IMAGE", help="What to build on; see docs/images.md.")
]
Recursive = Annotated[
    bool, typer.Option("--recursive", "-r", help="Directories, with everything in them.")
]
Timeout = Annotated[float | None, typer.Option(metavar="SECONDS", help="Longest time a cell may run.")]
Settings = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="interpreter.toml")]


class Runtime(Enum):
    auto = "auto"
    docker = "docker"
    embedded = "embedded"


class Isolation(Enum):
    auto = "auto"
    bubblewrap = "bubblewrap"
    none = "none"
