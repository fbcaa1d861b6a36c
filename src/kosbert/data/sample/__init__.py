"""The sample set: a synthetic Korean NLI and STS data set written by a small grammar."""
