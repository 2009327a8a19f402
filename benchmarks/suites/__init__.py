"""The suites: each has ``main(arguments) -> exit status``."""
