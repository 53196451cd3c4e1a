"""The program's first moment: until there is something to tell, an interrupt just ends it."""

from __future__ import annotations

import signal


def start() -> None:
    """Run the command line; imports nothing else before it is quiet about being interrupted."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    if on_interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from capturegate.cli.main import main

    signal.signal(signal.SIGINT, on_interrupt)
    main()
