"""Private models: integer sums measured with noise, and what is learned from them."""
