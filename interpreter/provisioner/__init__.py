"""Kernels of any Jupyter application, run in sessions of a gateway.

A Jupyter application finds `SandboxProvisioner` by the entry point `interpreter`, which a kernelspec
names (`interpreter kernelspec install` writes one). What it needs besides the SDK, jupyter-client and
pyzmq, comes with the application: so nothing here is loaded before it is used.
"""
