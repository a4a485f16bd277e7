"""``python -m lego_verl.images``: the images of tasks on docker daemons, without a registry."""
