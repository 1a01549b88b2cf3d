"""Small databases of former schema versions as SQL, one folder per version, for the tests of later upgrades."""
