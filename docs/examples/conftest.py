"""The examples are run by the README, some of them red on purpose."""

collect_ignore_glob = ["*.scenario.yaml"]
