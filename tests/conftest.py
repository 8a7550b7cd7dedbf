import os
import signal
import sys
from pathlib import Path

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")

sys.path.insert(0, str(Path(__file__).parent))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    """A shell in the background ignores interrupts, and so would every process that a test interrupts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
