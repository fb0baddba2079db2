"""Which centre a row is nearest to, plainly and with bounds that spare most rows a look."""
