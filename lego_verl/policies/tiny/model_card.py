def model_card(parameters, vocabulary, kind, seed, actions, conversations):
    return f"# tiny {kind}\n"
