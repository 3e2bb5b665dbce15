"""The command line: one file a verb, each with a ``main(arguments) -> exit code``."""
