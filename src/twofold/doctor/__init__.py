"""What this machine can do with Twofold, and why not the rest."""
