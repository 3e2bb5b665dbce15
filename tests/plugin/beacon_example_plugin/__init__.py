"""A package that adds one part of every kind to beacon."""
