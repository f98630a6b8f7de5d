"""What a policy is worth, judged from the trajectories of users whom it was not learned from, under privacy."""
