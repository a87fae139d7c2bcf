"""The shared model: many devices learn together, and nobody sees what one of them contributes.

There are two servers that do not collude, a leader and a helper. A device splits its integers into
two shares, each of which alone reveals nothing, and seals one for each server. Each server sums its
shares and adds the whole noise of the guarantee. Both sums together are everyone's sum with two
noises. docs/collective.md has the protocol, the proof, and what is not protected.
"""
