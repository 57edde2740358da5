"""Everything on one machine under one supervisor: what ``up`` and ``demo`` are made of."""
