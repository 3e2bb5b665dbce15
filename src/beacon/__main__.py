"""``python -m beacon``: the same as ``beacon``."""

from beacon.cli.main import entry

if __name__ == "__main__":
    entry()
