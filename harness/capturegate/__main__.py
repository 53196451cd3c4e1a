"""`python -m capturegate`."""

from capturegate.cli.main import main

main()
