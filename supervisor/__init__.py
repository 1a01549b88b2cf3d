"""The parent: it claims, forks, renews, kills and reaps, and runs no user code but the import of handlers."""
