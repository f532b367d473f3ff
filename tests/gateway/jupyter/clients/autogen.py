"""AutoGen's executor for Jupyter servers, pointed at a gateway: `python autogen.py HOST PORT TOKEN FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock
from autogen_ext.code_executors.docker_jupyter import DockerJupyterCodeExecutor
from autogen_ext.code_executors.docker_jupyter._jupyter_server import JupyterConnectionInfo

PLOT = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"


async def main(host: str, port: str, token: str, folder: str) -> None:
    server = JupyterConnectionInfo(host=host, use_https=False, port=int(port), token=token)

    async with DockerJupyterCodeExecutor(server, output_dir=Path(folder)) as executor:

        async def run(*cells: str) -> tuple[int, str, int]:
            blocks = [CodeBlock(code=cell, language="python") for cell in cells]
            result = await executor.execute_code_blocks(blocks, CancellationToken())
            return result.exit_code, result.output, len(result.output_files)

        assert await run("x = 40", "print('said')", "x + 2") == (0, "\nsaid\n\n42", 0)
        code, output, files = await run(PLOT)
        assert (code, files) == (0, 1), output
        code, output, _ = await run("1 / 0", "'never'")
        assert code == 1
        assert "ZeroDivisionError" in output
        await executor.restart()
        code, output, _ = await run("x")
        assert code == 1
        assert "NameError" in output


asyncio.run(main(*sys.argv[1:]))
