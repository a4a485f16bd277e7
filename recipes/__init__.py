"""What a run is: Hydra groups, data only."""
