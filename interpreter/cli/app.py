"""What commands there are, their options and their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interpreter.cli.options import (
    BaseImage,
    Dataset,
    DiskMb,
    Env,
    ImageName,
    Images,
    InContext,
    Inputs,
    InWorkspace,
    Isolation,
    Joined,
    Json,
    Labels,
    Name,
    Owner,
    ReadOnly,
    Recursive,
    Runtime,
    Settings,
    Several,
    Timeout,
    Variables,
    Which,
    WorkspaceName,
)
from interpreter.models import SessionState

app = typer.Typer(
    help="A self-hosted, stateful code interpreter.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
sessions_app = typer.Typer()
app.add_typer(sessions_app, name="sessions", invoke_without_command=True)
datasets_app = typer.Typer()
app.add_typer(datasets_app, name="datasets", invoke_without_command=True)
workspaces_app = typer.Typer()
app.add_typer(workspaces_app, name="workspaces", invoke_without_command=True)
images_app = typer.Typer(
    help="Build, list and check the images that sandboxes are made from.", no_args_is_help=True
)
app.add_typer(images_app, name="images")
notebook_app = typer.Typer(help="Run notebook files in sessions.", no_args_is_help=True)
app.add_typer(notebook_app, name="notebook")
kernelspec_app = typer.Typer(help="Run Jupyter applications' kernels in sessions.", no_args_is_help=True)
app.add_typer(kernelspec_app, name="kernelspec")


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. [127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. [8888]")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where everything is kept.")] = None,
    runtime: Annotated[Runtime | None, typer.Option(help="Where sandboxes run.")] = None,
    isolation: Annotated[Isolation | None, typer.Option(help="How sandboxes are kept apart.")] = None,
    token: Annotated[str | None, typer.Option(help="Bearer token; made and kept if not given.")] = None,
    config: Settings = None,
) -> None:
    """Start the gateway."""
    from interpreter.cli.settings import serve as command

    flags = {
        "host": host,
        "port": port,
        "data_dir": data_dir and str(data_dir),
        "runtime": runtime and runtime.value,
        "isolation": isolation and isolation.value,
        "token": token,
    }
    raise typer.Exit(command(flags, config))


@app.command()
def repair(
    data_dir: Annotated[Path | None, typer.Option(help="Where everything is kept.")] = None,
    config: Settings = None,
    json: Json = False,
) -> None:
    """Make a new database from what can still be read of a damaged one."""
    from interpreter.cli.repair import repair as command

    command({"data_dir": data_dir and str(data_dir)}, config, json)


@app.command()
def run(
    code: Annotated[str | None, typer.Argument(help="The code, or - to read it from stdin.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Run this file.")] = None,
    session: Joined = None,
    name: Name = None,
    environment: Env = None,
    env: Variables = None,
    input: Inputs = None,
    workspace: InWorkspace = None,
    read_only: ReadOnly = False,
    context: InContext = "default",
    timeout: Timeout = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the session afterwards.")] = False,
    images: Images = Path(),
    json: Json = False,
) -> None:
    """Run a cell and show what comes of it.

    Without --session it makes a session and keeps it, so that the next cell can go on there.

    Exit codes: 0 ok, 1 the cell failed, 2 usage, 3 the gateway, 124 timeout, 130 interrupted.
    """
    from interpreter.cli.run import read_code
    from interpreter.cli.run import run as command

    source = read_code(code, file)
    raise typer.Exit(
        command(
            source,
            joined=session,
            name=name,
            environment=environment,
            env=env,
            inputs=input,
            workspace=workspace,
            read_only=read_only,
            context=context,
            timeout=timeout,
            delete=delete,
            images=images,
            json=json,
        )
    )


@app.command()
def repl(
    session: Joined = None,
    name: Name = None,
    environment: Env = None,
    env: Variables = None,
    input: Inputs = None,
    workspace: InWorkspace = None,
    read_only: ReadOnly = False,
    context: InContext = "default",
    timeout: Timeout = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the session when leaving.")] = False,
    images: Images = Path(),
) -> None:
    """Type cells at a prompt."""
    from interpreter.cli.repl import repl as command

    raise typer.Exit(
        command(
            joined=session,
            name=name,
            environment=environment,
            env=env,
            inputs=input,
            workspace=workspace,
            read_only=read_only,
            context=context,
            timeout=timeout,
            keep=keep,
            images=images,
        )
    )


@app.command("exec", context_settings={"ignore_unknown_options": True})
def execute(
    session: Which,
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND…", help="After --; a line, or words.")
    ],
    cwd: Annotated[str | None, typer.Option(help="Run it in this folder.")] = None,
    env: Variables = None,
    timeout: Timeout = None,
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Give it what comes on stdin.")] = False,
) -> None:
    """Run a command in a session: interpreter exec SESSION -- ls -l

    Its exit code is passed on; 124 is a timeout, and Ctrl-C ends it.
    """
    from interpreter.cli.shell import execute as run_command

    raise typer.Exit(run_command(session, command, cwd=cwd, env=env, timeout=timeout, stdin=stdin))


@app.command()
def shell(
    session: Which,
    name: Annotated[str, typer.Option("--name", "-n", help="Which of its terminals.")] = "main",
) -> None:
    """Open a terminal in a session. Ctrl-] leaves it running."""
    from interpreter.cli.shell import shell as command

    raise typer.Exit(command(session, name))


@app.command()
def lab(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="Id, beginning of an id, or name.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. [any free one]")] = None,
    browser: Annotated[bool, typer.Option(help="Open it in the browser.")] = True,
) -> None:
    """Open JupyterLab on a session, or on a new one. Ctrl-C leaves the session running."""
    from interpreter.cli.lab import lab as command

    raise typer.Exit(command(session, port=port, browser=browser))


@sessions_app.callback()
def sessions(
    context: typer.Context,
    state: Annotated[SessionState | None, typer.Option(help="Only those in this state.")] = None,
    name: Annotated[str | None, typer.Option(help="Only those of this name.")] = None,
    label: Labels = None,
    json: Json = False,
) -> None:
    """List the sessions, or delete some."""
    if context.invoked_subcommand is None:
        from interpreter.cli.sessions import show

        show(state and state.value, name, label, json)


@datasets_app.callback()
def datasets(context: typer.Context, json: Json = False) -> None:
    """List the datasets that sessions can be given to read, add one, or delete some."""
    if context.invoked_subcommand is None:
        from interpreter.cli.datasets import show

        show(json)


@datasets_app.command("add")
def add_dataset(
    name: Dataset,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file, or a folder.", exists=True)],
    unpack: Annotated[bool, typer.Option("--unpack", help="Unpack a zip or tar file.")] = False,
    json: Json = False,
) -> None:
    """Upload a file or a folder. Sessions see it at /data/input/NAME."""
    from interpreter.cli.datasets import add as command

    command(name, path, unpack, json)


@datasets_app.command("show")
def show_dataset(name: Dataset, json: Json = False) -> None:
    """List the files of a dataset."""
    from interpreter.cli.datasets import files as command

    command(name, json)


@datasets_app.command("rm")
def remove_datasets(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Names of datasets.")],
) -> None:
    """Delete datasets. Sessions that have them keep them."""
    from interpreter.cli.datasets import remove as command

    raise typer.Exit(command(names))


@app.command()
def attach(session: Which, dataset: Dataset) -> None:
    """Have a session see a dataset, as it is now, at /data/input."""
    from interpreter.cli import lifecycle

    raise typer.Exit(lifecycle.each([session], lambda s: lifecycle.attach(s, dataset)))


@app.command()
def detach(session: Which, dataset: Dataset) -> None:
    """Take a dataset away from a session."""
    from interpreter.cli import lifecycle

    raise typer.Exit(lifecycle.each([session], lambda s: lifecycle.detach(s, dataset)))


@app.command()
def describe(
    session: Which,
    path: Annotated[str, typer.Argument(metavar="PATH", help="In the workspace, or below /data/input.")],
    json: Json = False,
) -> None:
    """Describe the table in a file: columns, types, rows and a sample."""
    from interpreter.cli.describe import describe as command

    command(session, path, json)


@app.command()
def contexts(
    session: Which,
    create: Annotated[str | None, typer.Option(metavar="NAME", help="Make this one.")] = None,
    delete: Annotated[str | None, typer.Option(metavar="NAME", help="End this one.")] = None,
    json: Json = False,
) -> None:
    """List the kernels of a session, make one, or end one."""
    from interpreter.cli.sessions import contexts as command

    command(session, create, delete, json)


@app.command()
def status(json: Json = False) -> None:
    """Show how full the gateway is, and how many sandboxes stand ready."""
    from interpreter.cli.status import show

    show(json)


@app.command()
def pause(sessions: Several) -> None:
    """Freeze sessions. Memory stays, no processor time is used; the next cell resumes them."""
    from interpreter.cli import lifecycle

    raise typer.Exit(lifecycle.each(sessions, lifecycle.pause))


@app.command()
def resume(sessions: Several) -> None:
    """Let paused sessions go on."""
    from interpreter.cli import lifecycle

    raise typer.Exit(lifecycle.each(sessions, lifecycle.resume))


@app.command()
def stop(sessions: Several) -> None:
    """End the sandboxes of sessions. Memory is gone; files and history stay."""
    from interpreter.cli import lifecycle

    raise typer.Exit(lifecycle.each(sessions, lifecycle.stop))


@app.command()
def start(sessions: Several) -> None:
    """Bring stopped sessions back, with their files."""
    from interpreter.cli import lifecycle

    raise typer.Exit(lifecycle.each(sessions, lifecycle.start))


@sessions_app.command("delete")
@app.command()
def delete(sessions: Several) -> None:
    """Delete sessions, with their files and history."""
    from interpreter.cli import lifecycle

    raise typer.Exit(lifecycle.each(sessions, lifecycle.delete))


@app.command()
def logs(
    session: Which,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Go on as things happen.")] = False,
    json: Json = False,
) -> None:
    """Show what a session has run, and what came of it."""
    from interpreter.cli.logs import logs as command

    command(session, follow, json)


@app.command()
def audit(
    session: Annotated[str | None, typer.Argument(metavar="[SESSION]", help="Of this one only.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, the last ones.")] = 100,
    json: Json = False,
) -> None:
    """Show what became of sessions and why, deleted ones included."""
    from interpreter.cli.audit import audit as command

    command(session, limit, json)


@app.command()
def interrupt(session: Which, context: InContext = "default") -> None:
    """Interrupt the cell that runs in a session."""
    from interpreter.cli import lifecycle

    raise typer.Exit(lifecycle.each([session], lambda s: lifecycle.interrupt(s, context)))


@app.command()
def restart(session: Which, context: InContext = "default") -> None:
    """Give a session a fresh kernel. Memory is gone, files stay."""
    from interpreter.cli import lifecycle

    raise typer.Exit(lifecycle.each([session], lambda s: lifecycle.restart(s, context)))


@app.command()
def ps(
    session: Which,
    end_orphans: Annotated[
        bool, typer.Option("--end-orphans", help="End what finished cells have left running.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the processes of a session, and which cell started each."""
    from interpreter.cli.processes import ps as command

    command(session, end_orphans, json)


@app.command()
def cp(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="FILE, or SESSION:PATH.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="SESSION:PATH, or FILE.")],
    recursive: Recursive = False,
) -> None:
    """Copy files into a session, out of one, or within one."""
    from interpreter.cli.files import cp as command

    raise typer.Exit(command(source, target, recursive))


@app.command()
def ls(
    place: Annotated[str, typer.Argument(metavar="SESSION[:PATH]", help="What to look into.")],
    json: Json = False,
) -> None:
    """List the files of a session."""
    from interpreter.cli.files import ls as command

    command(place, json)


@app.command()
def rm(
    places: Annotated[list[str], typer.Argument(metavar="SESSION:PATH…", help="What to delete.")],
    recursive: Recursive = False,
) -> None:
    """Delete files of a session."""
    from interpreter.cli.files import rm as command

    raise typer.Exit(command(places, recursive))


@workspaces_app.callback()
def workspaces(context: typer.Context, owner: Owner = None, json: Json = False) -> None:
    """List named workspaces, or make, copy, archive, restore and delete them."""
    if context.invoked_subcommand is None:
        from interpreter.cli.workspaces import show

        show(owner, json)


@workspaces_app.command("create")
def create_workspace(
    name: WorkspaceName,
    owner: Owner = None,
    disk_mb: DiskMb = None,
    from_session: Annotated[
        str | None, typer.Option("--from-session", help="Begin with the files of this session.")
    ] = None,
    json: Json = False,
) -> None:
    """Make a workspace that outlives the sessions that use it, empty or with a session's files."""
    from interpreter.cli.workspaces import create as command

    command(name, owner, disk_mb, from_session, json)


@workspaces_app.command("rm")
def remove_workspaces(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Names of workspaces.")],
) -> None:
    """Delete workspaces, with their files."""
    from interpreter.cli.workspaces import remove as command

    raise typer.Exit(command(names))


@workspaces_app.command("copy")
def copy_workspace(
    name: WorkspaceName,
    to: Annotated[str, typer.Argument(metavar="TO", help="Name of the new one.")],
    owner: Owner = None,
    disk_mb: DiskMb = None,
    json: Json = False,
) -> None:
    """Make another workspace with the same files."""
    from interpreter.cli.workspaces import copy as command

    command(name, to, owner, disk_mb, json)


@workspaces_app.command("archive")
def archive_workspace(
    name: WorkspaceName,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="[NAME.tar.gz]")] = None,
) -> None:
    """Save a workspace as one compressed file."""
    from interpreter.cli.workspaces import archive as command

    command(name, file)


@workspaces_app.command("restore")
def restore_workspace(
    name: WorkspaceName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A compressed tar file.")],
    owner: Owner = None,
    disk_mb: DiskMb = None,
    json: Json = False,
) -> None:
    """Make a workspace from such a file."""
    from interpreter.cli.workspaces import restore as command

    command(name, file, owner, disk_mb, json)


@images_app.command("build")
def build_images(
    name: ImageName = None,
    base: BaseImage = "auto",
) -> None:
    """Build the kernel images with the Docker engine."""
    from interpreter.cli.kernel_images import build as command

    command(name, base)


@images_app.command("check")
def check_image(
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Any image that the engine has.")],
    json: Json = False,
) -> None:
    """Say whether sessions can run in an image, and what is missing if not."""
    from interpreter.cli.kernel_images import check as command

    raise typer.Exit(command(image, json))


@images_app.command("list")
def list_images(json: Json = False) -> None:
    """List the kernel images in the Docker engine."""
    from interpreter.cli.kernel_images import show as command

    command(json)


@notebook_app.callback()
def notebook() -> None:
    """Run notebook files in sessions."""


@notebook_app.command("run")
def run_notebook(
    file: Annotated[Path, typer.Argument(metavar="NOTEBOOK", help="The .ipynb file.")],
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write it.")] = None,
    environment: Annotated[str | None, typer.Option(help="Of the new session.")] = None,
    workspace: InWorkspace = None,
    input: Inputs = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds each cell may run.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Say which outputs differ.")] = False,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Also after a failure.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Do not delete the session.")] = False,
) -> None:
    """Run a notebook cell by cell in a new session, which is deleted afterwards."""
    from interpreter.cli.notebook import run as command

    raise typer.Exit(
        command(
            file,
            out,
            environment=environment,
            workspace=workspace,
            inputs=input,
            timeout=timeout,
            compare=compare,
            keep_going=keep_going,
            keep=keep,
        )
    )


@kernelspec_app.callback()
def kernelspec() -> None:
    """Run the kernels of Jupyter applications in sessions."""


@kernelspec_app.command("install")
def install_kernelspec(
    name: Annotated[str, typer.Option(help="What applications call it.")] = "interpreter",
    environment: Annotated[str | None, typer.Option(help="Of its sessions.")] = None,
    display_name: Annotated[str | None, typer.Option(help="What people see.")] = None,
    user: Annotated[bool, typer.Option("--user", help="For this user.")] = False,
    sys_prefix: Annotated[
        bool, typer.Option("--sys-prefix", help="In this Python environment. [default]")
    ] = False,
    prefix: Annotated[str | None, typer.Option(help="In another environment.")] = None,
) -> None:
    """Write a kernelspec, by which JupyterLab, nbclient and others run kernels in sessions."""
    from interpreter.cli.kernelspec import install as command

    if user + sys_prefix + (prefix is not None) > 1:
        raise typer.BadParameter("Only one of --user, --sys-prefix and --prefix can be given.")
    raise typer.Exit(command(name, environment, display_name, user=user, prefix=prefix))


@app.command()
def config(config: Settings = None, json: Json = False) -> None:
    """Show every setting and where its value comes from."""
    from interpreter.cli.settings import show

    show(config, json)


@app.command()
def version() -> None:
    """Print the version."""
    from interpreter import __version__

    print(__version__)
