"""Floor 3, compiled: request state, policies, block pool, split choice, routing. It has no clock."""
