# These plans are broken on purpose; nobody collects them.
collect_ignore_glob = ["*.mutation.yaml"]
