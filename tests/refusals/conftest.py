# These files are broken on purpose; nobody collects them as scenarios.
collect_ignore_glob = ["*.scenario.yaml"]
