"""Fitted models: what predicts, on kernels, features, with a nugget, on a device."""
