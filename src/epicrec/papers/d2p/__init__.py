"""D2P (Guerraoui et al., VLDB 2015) as published: mechanism, models, protocol, tables, figures."""
