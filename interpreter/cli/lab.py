"""`interpreter lab`: JupyterLab on a session, in a browser of this machine."""

from __future__ import annotations

import sys

from interpreter.cli.attach import open_session
from interpreter.cli.exits import Exit, complain
from interpreter.client import Client
from interpreter.client.place import locate
from interpreter.models import SessionState


def lab(session: str | None, *, port: int | None, browser: bool) -> int:
    try:
        from interpreter.lab.app import serve
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] == "interpreter":
            raise
        complain("JupyterLab is not installed.", "Install it: pip install 'interpreter[lab]'")
        return Exit.usage
    with Client() as client:
        opened = open_session(client, session, None, None)
        if opened.info.state is SessionState.stopped:
            print("starting the session again", file=sys.stderr)
            opened.start()
        info = opened.info
    serve(locate(), info, port=port, browser=browser)
    return Exit.ok
