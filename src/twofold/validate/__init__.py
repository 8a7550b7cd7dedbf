"""Predictions against measurements: the sets that are known, what each must reach, and the page that shows them."""
