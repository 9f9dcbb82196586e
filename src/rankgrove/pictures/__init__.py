"""Pictures: drawing only, of numbers that others have found."""
