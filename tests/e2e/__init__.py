"""Whole processes driven from outside: a cluster, a repository, and ``manage.py up`` in between.

The cluster is the sandbox API server, a control plane from KUBEBUILDER_ASSETS, or whatever KUBECONFIG names.
"""
