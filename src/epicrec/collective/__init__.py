"""What many learn together without showing anyone their part: shares, sums, rounds.

Two servers that do not collude, a leader and a helper. A device cuts the integers it adds into two
shares that say nothing each, and seals one for either. Each server adds up its shares and adds the
whole noise of the guarantee to its sum; both sums together are everyone's sum with two noises.
docs/collective.md has the protocol, the proof, and what is not protected.
"""
