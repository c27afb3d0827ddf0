"""What all tests need."""

import signal

from hypothesis import HealthCheck, settings

# A machine that stands still for a moment is no slow program.
settings.register_profile(
    "unhurried", parent=settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

# A shell that starts the tests in the background has them ignore interrupts, and every process they start would, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
