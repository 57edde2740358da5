"""The sandbox: a Kubernetes API server in one process, for the demo and for tests.

Clients must not be able to tell it from a real control plane without controllers: same URLs, same bodies,
same watch streams, same audit events and admission reviews. `SandboxServer` (in `reverser.sandbox.thread`)
runs it in the background of a test, `python -m reverser.sandbox` as a process of its own.

Not modelled: controllers and garbage collection, mutating and conversion webhooks, admission policies,
`matchConditions`, pod connections (exec, logs, proxy), service account tokens, the field differences between
`autoscaling/v1` and `v2` and between the two Event types. Custom resource versions differ by `apiVersion` and
their schemas only (conversion strategy None).
"""
