"""Floor 1: what a user writes: model, device, link, workload, SLO, deployment."""
