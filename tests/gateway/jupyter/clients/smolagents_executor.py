"""smolagents' executor for Jupyter kernels, without its container: `python … HOST PORT TOKEN`.

All of it but the start of a container is its own: how it waits for the server, makes a kernel, and runs code.
"""

from __future__ import annotations

import sys

from smolagents.default_tools import FinalAnswerTool
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import DockerExecutor, RemotePythonExecutor, _create_kernel_http
from smolagents.utils import AgentError


class GatewayExecutor(DockerExecutor):
    def __init__(self, host: str, port: str, token: str) -> None:
        RemotePythonExecutor.__init__(self, [], AgentLogger(LogLevel.ERROR))
        self.base_url = f"http://{host}:{port}"
        self._wait_for_server(token)
        self.kernel_id = _create_kernel_http(f"{self.base_url}/api/kernels?token={token}", self.logger)
        self.ws_url = f"ws://{host}:{port}/api/kernels/{self.kernel_id}/channels?token={token}"


executor = GatewayExecutor(*sys.argv[1:])
executor.send_variables({"given": [20, 22]})
answer = executor("x = sum(given)\nprint('said')\nx")
assert (answer.output, answer.logs, answer.is_final_answer) == ("42", "said\n", False)
failure = ""
try:
    executor("1 / 0")
except AgentError as e:
    failure = str(e)
assert "ZeroDivisionError" in failure
executor.send_tools({"final_answer": FinalAnswerTool()})
last = executor("final_answer({'x': x})")
assert (last.output, last.is_final_answer) == ({"x": 42}, True)
