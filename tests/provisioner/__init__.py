"""Kernels of Jupyter applications in sessions."""
