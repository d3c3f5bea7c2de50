"""What a command prints, and what it is told by the terminal."""
