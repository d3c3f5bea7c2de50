"""State searches of the protocols, with the guards and values of the code itself."""
