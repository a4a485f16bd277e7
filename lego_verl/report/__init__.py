"""``python -m lego_verl.report RUN``: a run in one HTML file, to send to someone.

The file asks for nothing from outside and has no script: charts are SVG, what is long is folded. Nothing that an agent
wrote can act in it: every text is escaped, and the page's own policy (CSP) forbids scripts, requests and frames.
"""
