"""The pipeline from a case to a published folder."""
