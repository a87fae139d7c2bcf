"""McSherry & Mironov (2009): item effects and covariance measured with noise."""
