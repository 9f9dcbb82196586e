"""Pictures as SVG text: drawing only, of numbers that others have found."""
