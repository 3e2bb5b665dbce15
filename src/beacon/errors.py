"""Errors that are meant for the person at the keyboard: one line each, no traceback."""


class UserError(ValueError):
    """The input is wrong. The message says what, where and what to do; the command line exits with 2."""


class RunError(RuntimeError):
    """The input is fine but the work could not be done, for example on a full disk; exit code 1."""
