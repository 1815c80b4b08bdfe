"""Attestations: Intel TDX quotes and NVIDIA tokens, verified offline against what the auditor holds.

Nothing here is imported unless a quote or a token is to be verified: this is the one place of the judging rooms that
uses ``cryptography`` (X.509 and ECDSA over P-256 and P-384), and the one place that asks ``dcap_qvl``.
"""
