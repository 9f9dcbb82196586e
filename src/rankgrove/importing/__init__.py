"""Models of LightGBM, XGBoost and CatBoost, read from their files without these libraries."""
