"""Router replay (R3) on FSDP: the trainer sends every token to the experts that generation sent it to.

``families`` knows transformers' routers, ``rows`` the layout of recorded routes, ``replay`` puts the two together
in a forward pass, and ``engine`` is verl's FSDP engine with it. docs/upstream says how verl would take it.
"""
