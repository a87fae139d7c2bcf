"""EpicRec (Shen & Jin, CCS 2016) as published: mechanisms, competitors, protocols, figures."""
