"""Cost models from kernel tables that were measured on many devices: those of the package ``aiconfigurator-core``."""
