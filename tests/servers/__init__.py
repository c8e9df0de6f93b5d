"""Real servers that tests start on this machine's loopback address, and stop by their process id.

``process`` starts one and waits until it answers, ``proxy`` stands between a client and a server and spoils chosen requests.
``make servers`` installs the programs; a test whose server is missing says so and is skipped, or fails where oracles are required.
"""
