"""Tables of real trajectories: learned from, judged, and paid for, with a receipt."""
