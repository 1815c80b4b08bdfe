"""Checking what was published against the receipts that must stand behind it.

``reading`` takes a claims file, ``evidence`` lists what a history holds, ``check`` decides each claim with reasons.
"""
