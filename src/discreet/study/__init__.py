"""Studies with real users: coordinator, shuffler, pages, and simulated people to rehearse with."""
