"""What several mesh algorithms share: starts, bounds, spanning trees, rounds and stopping."""
