"""What all tests need."""

import signal

# A shell that starts the tests in the background has them ignore interrupts, and every process they start would, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
