"""The one wire between the gateway and a sandbox.

`frames` is the format of the bytes, `wire` what one end remembers (numbers, acknowledgements,
windows); both use the standard library only, because the kernel host inside the sandbox uses
them too. `connection` puts a wire on an asyncio transport for the gateway. The format is
described in docs/link.md.
"""
