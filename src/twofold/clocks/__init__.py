"""The two clocks beside each other: what the engine did, and what the simulator makes of it."""
