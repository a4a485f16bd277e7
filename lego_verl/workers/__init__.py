"""The only floor that imports verl: platform, engine, rollout server, agent loop, trainer."""
