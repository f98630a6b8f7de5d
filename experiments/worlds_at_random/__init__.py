"""Two learners side by side in worlds that are drawn at random: many kinds, shapes, rewards and horizons."""
