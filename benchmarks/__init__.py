"""Commands that print how fast Twofold is: ``python -m benchmarks`` runs them all."""
