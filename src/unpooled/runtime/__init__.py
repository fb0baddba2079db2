"""The state machines that every driver uses: a party, a coordinator, a peer."""
