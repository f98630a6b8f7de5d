"""What devices send: one question, its answers, a randomiser, and a way to the count."""
