"""McSherry & Mironov (KDD 2009): item effects and a covariance measured with noise."""
