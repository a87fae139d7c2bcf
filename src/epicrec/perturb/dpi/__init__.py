"""DPI (Yang et al., 2019): ratings altered one by one on the device, and what undoes it."""
