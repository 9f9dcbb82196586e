"""The estimators as scikit-learn users know them: `Ranker`, `MARTRegressor`, `MARTClassifier`."""
