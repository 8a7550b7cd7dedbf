"""Floor 4: the scheduler on the real clock. It fills steps as the simulator does and runs them with torch."""
