"""Files that run inside a sandbox, in a harness's runtime. Nothing here is imported by the trainer."""
