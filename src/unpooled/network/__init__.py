"""Runs on a network: identities, links, roles, what is kept on disk; Zenoh carries the bytes."""
