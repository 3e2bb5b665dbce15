"""Importing this module registers the environments: ``gymnasium.make("beacon.sim.gym:beacon/Stack-v0")``.

Gymnasium 1.0 has no plug-ins any more and asks packages for a module of this kind; it is the one place where
an import does something. ``beacon.sim.register()`` does the same when called.
"""

from __future__ import annotations

from beacon.sim.registration import register

register()
