"""`python -m capturegate`."""

from capturegate.cli.start import start

start()
