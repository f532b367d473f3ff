"""What runs inside a sandbox: the kernel host.

    gateway ══ link ══ host ══ ZMQ over ipc ══ kernel(s)
                         ╚═ zygote: imports done, forks a kernel when told to

It uses the standard library, pyzmq and ipykernel only, runs with the sandbox's own Python, and
shares nothing with the gateway but the frame format in `interpreter.link`.
"""
