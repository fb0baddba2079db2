"""Pure functions on arrays. Users' rows lie one after the other; no function loops over users.

Every result for a row, or for a user's cluster, is computed from that user's rows alone and in
their order, so it is the same to the last bit however users are grouped.
"""
