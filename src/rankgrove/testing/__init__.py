"""What tests, benchmarks and `paper` share: other libraries behind one face."""
