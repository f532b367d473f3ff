"""The Jupyter protocol: a kernel's channels, its messages as events, events folded into outputs."""
