"""Keys, credentials, host trust and sealing: everything that touches secret material.

Lowest layer: it knows nothing but the error tree and the kinds, so that the watcher that seals, the
writer that pushes and the controller that validates all read a Secret through the same code.
"""
