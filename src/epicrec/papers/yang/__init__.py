"""Yang, Li, Sun & Zhang (2019): noise on ratings (DPI) or inside the recommender (DPM)."""
