"""Floor 2: how long a step, a transfer, a split takes; power and price."""
