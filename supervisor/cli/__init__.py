"""The command line: one file per command or small family. It parses, calls and prints; it decides nothing."""
