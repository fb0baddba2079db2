"""The parties' rows: every form of X that people pass, and the files they come from."""
