"""Rules, replay, frontier and pins over verified entries. Nothing here yet: format version 1 comes first."""
