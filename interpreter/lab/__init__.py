"""JupyterLab on one session: a server on this machine that shows a person what agents do there.

It needs the extra `lab`. Nothing here is loaded by anything but `interpreter lab`.
"""
