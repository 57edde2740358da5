"""What an API server shows of a change: on the watch, in its audit stream, to admission."""
