"""What several protocols with a coordinator share."""
