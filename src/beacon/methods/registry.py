"""The methods by name, and how others join them."""

from __future__ import annotations

from beacon.methods.base import Method
from beacon.registry import Registry

METHODS: Registry[type[Method]] = Registry("method", "beacon.methods", home="beacon.methods")
register = METHODS.register
