"""The instances EFL's statements are judged on."""
