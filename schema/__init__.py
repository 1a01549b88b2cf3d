"""Everything that touches a row. Only this folder builds SQL; it imports nothing else of ours."""
