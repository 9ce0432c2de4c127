"""Post-processing: from noisy demands and a cost target to demands whose optimum keeps that cost."""
