"""Plans that follow the load: rates are watched, plans are exchanged while requests flow."""
