"""JupyterLab's server with everything of this machine taken out and one session put in.

Stock JupyterLab and Jupyter Server do the pages, the settings, the token and the cookies. Kernels,
files and terminals of this machine are not there at all: a page that shows what a hostile sandbox sent
can reach that sandbox and nothing else. What JupyterLab asks of the internet, news and updates, is left
out.
"""

from __future__ import annotations

import secrets
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from jupyter_server.serverapp import ServerApp
from jupyterlab.labapp import LabApp
from jupyterlab_server import LabServerApp
from traitlets.config import Config

from interpreter.client.place import Place
from interpreter.lab.contents import Checkpoints, Contents, Exports, Files, Recorded
from interpreter.lab.kernels import (
    Channels,
    Kernel,
    KernelAction,
    Kernels,
    OneSession,
    Sessions,
    Specs,
)
from interpreter.lab.session import LabSession, quoted
from interpreter.lab.terminals import Terminal, Terminals, TerminalSocket
from interpreter.models import Session

OURS = Path(__file__).parent / "labextensions"
PORTS = 50
"""How many are tried if the one that was free is not any more."""
POLICY = {
    "default-src": "'self' data: blob:",
    "script-src": "'self' 'unsafe-inline' 'unsafe-eval' blob:",
    "style-src": "'self' 'unsafe-inline'",
    "connect-src": "'self' ws://127.0.0.1:{port} data: blob:",
    "object-src": "blob:",
    "base-uri": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'self'",
}
"""What a page may load, whatever it is made to show: nothing from anywhere but this server."""


class _Server(ServerApp):
    """A Jupyter Server that reads no settings of others, and tells nobody but its user of itself."""

    default_services = ("api", "auth", "config", "security", "shutdown", "events")  # type: ignore[assignment]

    def load_config_file(self, *_: Any, **__: Any) -> None:
        """What a user has set for servers of their own is not meant for this one."""

    def write_server_info_file(self) -> None:
        """Would have the token in it."""

    def init_signal(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.stop(from_signal=True))


class _Lab(LabApp):
    """JupyterLab without building, installing and news."""

    serverapp_class = _Server
    load_other_extensions = False
    session: LabSession

    @classmethod
    def get_extension_package(cls) -> str:
        return __name__

    def load_config_file(self, *_: Any, **__: Any) -> None:
        """As above."""

    def initialize_handlers(self) -> None:
        settings = self.serverapp.web_app.settings
        settings["terminals_available"] = True
        settings["ws_ping_interval"] = 0
        page = settings.setdefault("page_config_data", {})
        page |= {
            "buildAvailable": False,
            "buildCheck": False,
            "devMode": False,
            "token": self.serverapp.identity_provider.token,
            "exposeAppInBrowser": self.expose_app_in_browser,
            "quitButton": False,
            "allow_hidden_files": True,
            "delete_to_trash": False,
            "news": {"disabled": True},
            "notebookVersion": "[2, 0, 0]",
            "interpreterNotebook": self.session.notebook,
        }
        LabServerApp.initialize_handlers(self)
        # The first that fits is taken.
        self.handlers[:0] = _handlers(self.session)

    async def stop_extension(self) -> None:
        await self.session.close()


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__, "app": _Lab}]


def _handlers(lab: LabSession) -> list[tuple[Any, ...]]:
    one = {"lab": lab}
    id = r"([\w-]+)"
    return [
        (r"/api/kernels/?", Kernels, one),
        (rf"/api/kernels/{id}", Kernel, one),
        (rf"/api/kernels/{id}/(interrupt|restart)", KernelAction, one),
        (rf"/api/kernels/{id}/channels", Channels, one),
        (r"/api/kernelspecs/?", Specs, one),
        (r"/api/kernelspecs/([^/]+)", Specs, one),
        (r"/api/sessions/?", Sessions, one),
        (rf"/api/sessions/{id}", OneSession, one),
        (r"/api/contents(.*)/checkpoints", Checkpoints, one),
        (r"/api/contents(|/.*)", Contents, one),
        (r"/files/(.*)", Files, one),
        (r"/api/nbconvert", Exports, one),
        (r"/api/terminals/?", Terminals, one),
        (rf"/api/terminals/{id}", Terminal, one),
        (rf"/terminals/websocket/{id}", TerminalSocket, one),
        (r"/interpreter/recorded", Recorded, one),
    ]


def _settings(lab: LabSession, token: str, path: str, port: int | None, browser: bool) -> Config:
    empty = lab.temporary / "empty"
    empty.mkdir()
    server = {
        "ip": "127.0.0.1",
        # Another each time: a page that is left open from one session has no part in the next.
        "port": port or _free_port(),
        "port_retries": 0 if port else PORTS,
        "root_dir": str(empty),
        "open_browser": browser,
        "default_url": path,
        "allow_root": True,
        "allow_unauthenticated_access": False,
        "cookie_secret": secrets.token_bytes(32),
        "log_level": "ERROR",
    }
    # A page can change these, so that they end with this server: what one session's page is made to
    # set is not obeyed by the page of another.
    lab_app = {
        "user_settings_dir": str(lab.temporary / "settings"),
        "workspaces_dir": str(lab.temporary / "workspaces"),
        "extra_labextensions_path": [str(OURS)],
        "default_url": path,
        "open_browser": browser,
        "log_level": "ERROR",
    }
    return Config(
        {
            "ServerApp": server,
            "IdentityProvider": {"token": token},
            "LabApp": lab_app,
        }
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def _headers(port: int) -> dict[str, str]:
    policy = "; ".join(f"{what} {where}" for what, where in POLICY.items())
    # Names in links are not looked up before anyone follows them.
    return {"Content-Security-Policy": policy.format(port=port), "X-DNS-Prefetch-Control": "off"}


def serve(place: Place, session: Session, *, port: int | None, browser: bool) -> None:
    """Shows a session until it is interrupted. The session goes on."""
    _Lab.session = lab = LabSession(place, session)
    token = secrets.token_hex(24)
    path = f"/lab/tree/{quoted([lab.notebook])}"
    settings = _settings(lab, token, path, port, browser)
    server = _Lab.initialize_server(argv=[], config=settings, no_browser_open_file=True)
    # As above; these cannot be set from outside.
    kept = server.config_manager
    kept.write_config_dir = str(lab.temporary / "config")
    kept.read_config_path = [kept.write_config_dir]
    server.web_app.settings.setdefault("headers", {}).update(_headers(server.port))
    url = f"http://127.0.0.1:{server.port}{path}?token={token}"
    print(f"JupyterLab on session {session.name or session.id}:\n\n    {url}\n")
    print("Ctrl-C ends JupyterLab; the session goes on.", flush=True)
    server.start()
    print(f"\nsession {session.id} goes on; 'interpreter lab {session.id}' comes back", file=sys.stderr)
