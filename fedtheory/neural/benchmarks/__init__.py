"""The papers' experiments on networks: settings, printed tables, and the runs beside them."""
