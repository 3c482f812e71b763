"""Tables 1 and 2, and predictions: masses of tossed bodies, with baselines."""
