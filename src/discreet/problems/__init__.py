"""One problem whole in each folder: registries name them as text, and the core imports none."""
