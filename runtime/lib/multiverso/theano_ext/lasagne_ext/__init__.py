"""Managers of the parameters of Lasagne's networks."""
