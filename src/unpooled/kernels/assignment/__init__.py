"""Which centre a row is nearest to: measured for all rows, or with bounds that skip most rows."""
