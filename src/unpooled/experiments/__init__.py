"""The papers' experiments, run with the public interface, beside the papers' own numbers."""
