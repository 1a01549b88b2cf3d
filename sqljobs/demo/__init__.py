"""`sqljobs demo`: an index of a real source tree, made by real jobs. Product code must not import from here,
except the command line, which starts it."""
