"""What the documentation says is what there is."""
