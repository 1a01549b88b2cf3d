"""What a job's author imports, and what runs in the child after the fork."""
