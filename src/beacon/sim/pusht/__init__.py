"""PushT by gym-pusht: a disc pushes a T-shaped block onto its outline, as people demonstrated it.

task         what is pushed where, and when it counts
world        the package's environment as a world with episodes
recordings   the public demonstrations, for suites
corruption   demonstrations corrupted in a known way; actions are positions here
"""
