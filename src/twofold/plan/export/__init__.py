"""What starts the deployment of a plan on the system that the user runs: commands, manifests, values."""
