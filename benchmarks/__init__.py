"""How quick it is, always next to something to compare with.

`python -m benchmarks` measures everything, `python -m benchmarks cell many` only that; `--quick`
does just enough to see that a measurement works. Every measurement runs both sides in turns, in
one go on one machine, and judges the ratio: absolute times say more about the machine.
"""
