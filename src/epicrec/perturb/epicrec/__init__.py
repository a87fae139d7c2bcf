"""EpicRec (Shen & Jin, 2016): category totals with calibrated noise, and items that have them."""
