"""D2P (Guerraoui et al., 2015): each item replaced at random, and what undoes it on average."""
