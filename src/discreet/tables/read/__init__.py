"""Tables as their owner declares them: read and counted by fixed rules, never shown."""
